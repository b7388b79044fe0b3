"""What a package brings that brings a task; see docs/adding-a-model.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    import tensorflow as tf

    from components.metrics import Interval
    from components.report import Story


@dataclass(frozen=True)
class Metric:
    """A number that says how good a model is.

    Attributes:
        name: in files and in MLflow, after ``train_`` or ``test_``, such as "auc".
        label: what people call it, such as "AUC".
        higher_is_better: which way is up.
        is_loss: it is of the kind that training minimises, so that it is drawn beside the training loss.
    """

    name: str
    label: str
    higher_is_better: bool = True
    is_loss: bool = False


@dataclass(frozen=True)
class Kept:
    """A column that stays beside each sample's score.

    Attributes:
        name: of the column in predictions.parquet.
        channel: of the feature specification, whose first feature it is; data without one have no such column.
        counted: keep how many ids of a history are not padding, rather than a value.
    """

    name: str
    channel: str
    counted: bool = False


@dataclass(frozen=True)
class Scores:
    """What a model says about each sample of a split; all arrays have one entry a sample.

    Attributes:
        labels: of the samples.
        values: what the model's signature returns, float32.
        kept: the task's kept columns that the data have, by name.
    """

    labels: np.ndarray
    values: np.ndarray
    kept: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """What one evaluation found.

    Attributes:
        metrics: the content of metrics.json; the scalars among them go to MLflow and KFP.
        curves: file name without .json to the curve it holds; ``roc`` is drawn by KFP.
        series: name to points of a step and a value, which MLflow draws.
    """

    metrics: dict[str, Any]
    curves: dict[str, dict[str, Any]]
    series: dict[str, list[tuple[int, float]]] = field(default_factory=dict)


class Streaming(Protocol):
    """Metrics that add up over batches and ranks; a ``tf.Module`` on the device."""

    def update(self, labels: tf.Tensor, outputs: tf.Tensor) -> None:
        """Adds the samples of a batch; runs inside ``tf.function``."""

    def reset(self) -> None:
        """Forgets all samples."""

    def totals(self) -> list[tf.Tensor]:
        """What is added up over the ranks, float64 each."""

    def load(self, totals: Sequence[np.ndarray]) -> None:
        """Goes on from these totals."""

    def result(self, totals: Sequence[np.ndarray]) -> dict[str, float]:
        """Metrics by name, from the totals of all ranks; NaN where the samples do not define one."""


@dataclass(frozen=True)
class TaskDefinition:
    """A task by name, registered under the entry points ``kfrec.tasks``.

    Attributes:
        name: what evaluate and register call it.
        summary: one sentence.
        metrics: the primary one first, by which models are compared.
        evaluation: frozen dataclass of the parameters that the evaluate step has for it.
        decision: frozen dataclass of the parameters that the register step has for it.
        kept: columns that stay beside each sample's score.
        output: name of what the exported signature returns.
        serve: takes the model's outputs and returns what the signature does, ``[B]`` float32.
        streaming: takes whether it is for training, where only what costs little is measured, and returns metrics.
        require: refuses labels that cannot be measured with a KfrecError; takes the labels and where they are from.
        measure: takes scores and the evaluation parameters.
        story: takes what was measured and returns the report.
        value: the primary metric of scores.
        difference: confidence interval of the primary metric of scores minus that of rival values on the same samples;
            takes those two, the number of resamples, the confidence and the seed.
        floor: takes the decision parameters and returns what a first model's primary metric has to exceed.
    """

    name: str
    summary: str
    metrics: tuple[Metric, ...]
    evaluation: type
    decision: type
    kept: tuple[Kept, ...]
    output: str
    serve: Callable[[tf.Tensor], tf.Tensor]
    streaming: Callable[[bool], Streaming]
    require: Callable[[np.ndarray, object], None]
    measure: Callable[[Scores, Any], Measured]
    story: Callable[[Measured], Story]
    value: Callable[[Scores], float]
    difference: Callable[[Scores, np.ndarray, int, float, int], Interval]
    floor: Callable[[Any], float]

    @property
    def primary(self) -> Metric:
        """The metric by which models are compared."""
        return self.metrics[0]
