"""The interface of a task; see docs/adding-a-model.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    import tensorflow as tf

    from components.metrics import Interval
    from components.report import Section, Story


@dataclass(frozen=True)
class Metric:
    """A metric of a model.

    Attributes:
        name: in files and in MLflow, after ``train_`` or ``test_``, such as "auc".
        label: display name, such as "AUC".
        higher_is_better: the direction of the metric.
        is_loss: whether training minimises it; it is then drawn with the training loss.
        of_groups: whether it needs whole groups of samples, which a share of shuffled samples does not have.
    """

    name: str
    label: str
    higher_is_better: bool = True
    is_loss: bool = False
    of_groups: bool = False


@dataclass(frozen=True)
class Kept:
    """A column that stays with each sample's score: in batches, for streaming metrics, and in predictions.parquet.

    Attributes:
        name: of the column.
        channel: of the feature specification; a feature of it is the column, and data without it have no column.
        place: of the feature in the channel.
        counted: keep the number of ids of a history that are not padding, rather than a value.
        occurring_in: channel of lists; keep how often the id occurs in all lists of the split that its feature in the
            same place has, rather than the id itself. Empty keeps the id.
        named: whether the values of the ids are wanted too, where the data have a vocabulary of them.
        exact_only: only exact metrics and the report read the column; streaming metrics do without.
        needed_for: what cannot be evaluated without the column, such as "MAP"; empty where it only adds to the results.
    """

    name: str
    channel: str
    place: int = 0
    counted: bool = False
    occurring_in: str = ""
    named: bool = False
    exact_only: bool = False
    needed_for: str = ""


@dataclass(frozen=True)
class NoParameters:
    """A task's parameters for a step that needs none."""


@dataclass(frozen=True)
class Scores:
    """A model's scores of a split; all arrays have one entry per sample.

    Attributes:
        labels: of the samples.
        values: what the model's signature returns, float32.
        kept: the task's kept columns that the data have, by name.
        names: of those that are named, id to value; an id that the vocabulary lacks is left out.
    """

    labels: np.ndarray
    values: np.ndarray
    kept: Mapping[str, np.ndarray] = field(default_factory=dict)
    names: Mapping[str, Mapping[int, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """The results of one evaluation.

    Attributes:
        metrics: the content of metrics.json; the scalars among them go to MLflow and KFP.
        curves: file name without .json to the curve it holds; ``roc`` is drawn by KFP.
        series: name to points of a step and a value, which MLflow draws; it groups names by what precedes a slash.
    """

    metrics: dict[str, Any]
    curves: dict[str, dict[str, Any]]
    series: dict[str, list[tuple[int, float]]] = field(default_factory=dict)


class Exchange(Protocol):
    """How the ranks, each with its share of a split, bring together what belongs together."""

    def exchange(self, keys: np.ndarray, columns: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Sends each row to the rank that its key chooses; all ranks call it at the same time.

        Args:
            keys: int64 ``[n]``.
            columns: of the rows, ``[n]`` each.

        Returns:
            The columns of the rows that this rank received, among them all rows of a key or none.
        """


class Streaming(Protocol):
    """Metrics that add up over batches and ranks; a ``tf.Module`` on the device."""

    def update(self, labels: tf.Tensor, outputs: tf.Tensor, kept: Mapping[str, tf.Tensor]) -> None:
        """Adds the samples of a batch; runs inside ``tf.function``.

        Args:
            labels: float32 ``[B]``.
            outputs: of the model, float32 ``[B]``.
            kept: the task's kept columns, by name, ``[B]`` each. A training batch has only those that models read.
        """

    def reset(self) -> None:
        """Forgets all samples."""

    def totals(self, ranks: Exchange) -> list[tf.Tensor]:
        """The sums to reduce over the ranks, float64 each; all ranks call it at the same time."""

    def load(self, totals: Sequence[np.ndarray]) -> None:
        """Restores these totals."""

    def result(self, totals: Sequence[np.ndarray]) -> dict[str, float]:
        """Metrics by name, from the totals of all ranks; NaN where the samples do not define one."""


@dataclass(frozen=True)
class TaskDefinition:
    """A task by name, registered under the entry points ``kfrec.tasks``.

    Attributes:
        name: value of the parameter ``task`` of evaluate and register.
        summary: one sentence.
        metrics: the primary one first, by which models are compared.
        training: frozen dataclass of the parameters that the train step has for it.
        evaluation: frozen dataclass of the parameters that the evaluate step has for it.
        decision: frozen dataclass of the parameters that the register step has for it.
        kept: columns that stay with each sample's score.
        output: name of what the exported signature returns.
        serve: takes the model's outputs and returns what the signature does, ``[B]`` float32.
        streaming: takes whether it is for training, which only computes cheap metrics, and the training parameters, and
            returns metrics.
        require: raises a KfrecError for scores that cannot be evaluated; takes the scores and their origin.
        measure: takes scores and the evaluation parameters.
        story: takes the results and returns the report.
        value: the primary metric; takes scores and the evaluation parameters.
        difference: confidence interval of the primary metric of scores minus that of rival values on the same samples;
            takes those two, the evaluation parameters, the number of resamples, the confidence and the seed.
        floor: takes the decision parameters and returns the threshold for a first model's primary metric.
        compared: takes scores and rival values on the same samples, and returns sections with the curves of both.
    """

    name: str
    summary: str
    metrics: tuple[Metric, ...]
    evaluation: type
    decision: type
    kept: tuple[Kept, ...]
    output: str
    serve: Callable[[tf.Tensor], tf.Tensor]
    streaming: Callable[[bool, Any], Streaming]
    require: Callable[[Scores, object], None]
    measure: Callable[[Scores, Any], Measured]
    story: Callable[[Measured], Story]
    value: Callable[[Scores, Any], float]
    difference: Callable[[Scores, np.ndarray, Any, int, float, int], Interval]
    floor: Callable[[Any], float]
    training: type = NoParameters
    compared: Callable[[Scores, np.ndarray], Sequence[Section]] = lambda scores, rival: ()

    @property
    def streamed(self) -> tuple[Kept, ...]:
        """The kept columns that streaming metrics read."""
        return tuple(column for column in self.kept if not column.exact_only)

    @property
    def primary(self) -> Metric:
        """The metric by which models are compared."""
        return self.metrics[0]
