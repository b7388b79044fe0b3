"""The interface of a task; see docs/adding-a-model.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from components.contract import Metric
from components.parameters import build, parameters_of
from components.tasks.controls import Controls
from components.tasks.scores import Scores

if TYPE_CHECKING:
    import tensorflow as tf

    from components.feature_spec import FeatureSpec
    from components.metrics import Interval
    from components.report import Section, Story

# Name to tensor, [B, ...] each.
Tensors = Mapping[str, "tf.Tensor"]


@dataclass(frozen=True)
class Kept:
    """A column kept with each sample's score: in batches, for streaming metrics, and in predictions.parquet.

    Attributes:
        channel: of the feature specification with the column's feature; data without the channel lack the column.
        counted: store a history's length without padding instead of a value.
        occurring_in: channel of lists; store the id's frequency in the split's lists of the feature with the same
            index, instead of the id. Empty stores the id.
        told_apart_by: channel of histories that tell the samples of the vocabulary's unknown id apart, see
            ``components.tasks.kept``; empty keeps them alike.
        trained: store how often the training data have the id's value, by the vocabulary: 0 for a value that it lacks,
            1 for one of a vocabulary without counts.
        named: whether to look up the ids' values, if the data have a vocabulary.
        exact_only: only exact metrics and the report read the column, not streaming metrics.
        needed_for: the metric that requires the column, such as "MAP"; empty for an optional column.
    """

    name: str
    channel: str
    index: int = 0
    counted: bool = False
    occurring_in: str = ""
    told_apart_by: str = ""
    trained: bool = False
    named: bool = False
    exact_only: bool = False
    needed_for: str = ""


@dataclass(frozen=True)
class NoParameters:
    """Parameters of a task without parameters for a step."""


@dataclass(frozen=True)
class Measured:
    """The results of one evaluation.

    Attributes:
        metrics: the content of metrics.json; the scalars among them go to MLflow and KFP.
        curves: file name without .json to curve; KFP draws ``roc``.
        series: name to (step, value) points, drawn by MLflow, which groups names by their prefix before a slash.
    """

    metrics: dict[str, Any]
    curves: dict[str, dict[str, Any]]
    series: dict[str, list[tuple[int, float]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Example:
    """A user's list beside what the user chose; items are as in the raw data.

    Attributes:
        history: the newest items, oldest first.
        rank: of the chosen item; None for one that the model does not know.
    """

    history: Sequence[str]
    chosen: str
    rank: float | None
    listed: Sequence[str]


@dataclass(frozen=True)
class Ranked:
    """Rankings of a whole catalogue for sampled test users; each user has one target, the newest chosen item.

    Attributes:
        ranks: of the targets, float64 ``[users]``, from 1; the mean rank of ties; inf for a target that the model does
            not know.
        lists: places of the best candidates in the catalogue, ``[users, top]``, -1 after shorter lists.
        popularity_ranks: the same for a ranking by the counts of the sampling distribution; None without counts.
        by: what the model ranked by; see ``components.scoring.catalogue.Catalogue.value``.
        note: why it did not rank by likelihood; else empty.
        keeps_seen: whether the lists hold items of the history, too.
        counts: of the sampling distribution, float64 ``[candidates]``; None if unknown.
        categories: of the candidates, ids ``[candidates]``; None if they have none, or all the same.
    """

    top: int
    candidates: int
    ranks: np.ndarray
    lists: np.ndarray
    popularity_ranks: np.ndarray | None = None
    popularity_lists: np.ndarray | None = None
    by: str = ""
    note: str = ""
    keeps_seen: bool = False
    counts: np.ndarray | None = None
    categories: np.ndarray | None = None
    examples: Sequence[Example] = ()


@dataclass(frozen=True)
class CatalogueMeasure:
    """How a task measures rankings of the whole catalogue; for data with histories.

    Attributes:
        users: takes the evaluation parameters; the largest number of test users, 0 for none.
        scores: takes the evaluation parameters; the largest number of scores.
        top: takes the evaluation parameters; the length of a list.
        measure: takes rankings; returns metrics, for metrics.json.
    """

    users: Callable[[Any], int]
    scores: Callable[[Any], int]
    top: Callable[[Any], int]
    measure: Callable[[Ranked], dict[str, Any]]


class Exchange(Protocol):
    """Regroups samples over the ranks by key."""

    def exchange(self, keys: np.ndarray, columns: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Sends each row to the rank of its key; a collective operation.

        Args:
            keys: int64 ``[n]``.
            columns: of the rows, ``[n]`` each.

        Returns:
            The columns of the received rows; all rows of a key are on one rank.
        """


class Streaming(Protocol):
    """Metrics accumulated over batches and ranks; a ``tf.Module`` on the device."""

    def update(self, targets: Tensors, outputs: Tensors, kept: Tensors) -> None:
        """Adds the samples of a batch; runs inside ``tf.function``.

        Args:
            targets: as in ``components.models.Model.loss_terms``.
            outputs: of ``components.models.Model.outputs``, by name, ``[B, ...]`` each.
            kept: the task's kept columns, by name, ``[B]`` each. Training batches have only those that models read.
        """

    def reset(self) -> None:
        """Resets the totals."""

    def totals(self, ranks: Exchange) -> list[tf.Tensor]:
        """The sums to reduce over the ranks, float64 each; a collective operation."""

    def load(self, totals: Sequence[np.ndarray]) -> None:
        """Restores these totals."""

    def result(self, totals: Sequence[np.ndarray]) -> dict[str, float]:
        """Metrics by name, from the totals of all ranks; NaN for an undefined metric."""


@runtime_checkable
class ReadingTables(Protocol):
    """``Streaming`` metrics that need side tables of the data, such as the texts of answers."""

    def read_tables(self, tables: Mapping[str, Path]) -> None:
        """Receives the side tables, once, before the first batch.

        Args:
            tables: name to file; see ``components.feature_spec.side_tables``.
        """


@dataclass(frozen=True)
class TaskDefinition:
    """A task, registered under the entry points ``kfrec.tasks``.

    Attributes:
        name: value of the parameter ``task`` of evaluate and register.
        metrics: the primary metric, by which epochs and models are compared, first.
        training: frozen dataclass of its parameters in the train step.
        defaults: defaults of the steps' parameters, by pipeline name, that override the steps': registered_model,
            because models of different tasks cannot be compared, and promotion_margin, in the unit of the primary
            metric.
        evaluation: frozen dataclass of its parameters in the evaluate step.
        decision: frozen dataclass of its parameters in the register step.
        kept: columns kept with each sample's score.
        serve: maps the model's outputs to those of the exported signature, by name, ``[B, ...]`` each.
        streaming: takes whether it is for training, with cheap metrics only, and the training parameters; returns
            metrics.
        require: takes the scores and their origin; raises a KfrecError for scores that cannot be evaluated.
        story: takes the results and returns the report.
        value: the primary metric; takes scores and the evaluation parameters.
        difference: confidence interval of the primary metric's difference between two models' scores of the same
            samples, the first minus the second; takes both, the evaluation parameters, the number of resamples, the
            confidence and the seed.
        floor: takes the decision parameters and returns the threshold for a first model's primary metric, above that
            of guessing.
        guessing: takes metrics.json and returns the primary metric of guessing, where it depends on the data.
        vetoes: takes metrics.json and the decision parameters, and returns the reasons why the model must not become
            champion whatever its score, each a clause such as "it is not above guessing".
        baseline_vetoes: the same for the built-in baselines; models that are baselines themselves are not asked.
        compared: takes two models' scores of the same samples, and returns sections with the curves of both.
        controls: takes the specification of the data and the evaluation parameters, and returns what to score beside
            the model; None if the data lack what that needs.
        remarks: takes the metrics and returns sentences that a user must see beside the primary metric, such as that
            the model does not beat a baseline.
        catalogue: measures rankings of the whole catalogue; None if the task has no such metrics.
    """

    name: str
    summary: str
    metrics: tuple[Metric, ...]
    evaluation: type
    decision: type
    kept: tuple[Kept, ...]
    serve: Callable[[Tensors], Tensors]
    streaming: Callable[[bool, Any], Streaming]
    require: Callable[[Scores, object], None]
    measure: Callable[[Scores, Any], Measured]
    story: Callable[[Measured], Story]
    value: Callable[[Scores, Any], float]
    difference: Callable[[Scores, Scores, Any, int, float, int], Interval]
    floor: Callable[[Any], float]
    training: type = NoParameters
    defaults: Mapping[str, Any] = field(default_factory=dict)
    guessing: Callable[[Mapping[str, Any]], float] = lambda metrics: 0.0
    vetoes: Callable[[Mapping[str, Any], Any], Sequence[str]] = lambda metrics, parameters: ()
    baseline_vetoes: Callable[[Mapping[str, Any], Any], Sequence[str]] = lambda metrics, parameters: ()
    compared: Callable[[Scores, Scores], Sequence[Section]] = lambda ours, theirs: ()
    controls: Callable[[FeatureSpec, Any], Controls | None] = lambda spec, parameters: None
    remarks: Callable[[Mapping[str, Any]], Sequence[str]] = lambda metrics: ()
    catalogue: CatalogueMeasure | None = None

    @property
    def streamed(self) -> tuple[Kept, ...]:
        """The kept columns that streaming metrics read."""
        return tuple(column for column in self.kept if not column.exact_only)

    @property
    def primary(self) -> Metric:
        """The metric by which models are compared."""
        return self.metrics[0]

    def at(self, values: Mapping[str, Any]) -> TaskDefinition:
        """The task with the K of its metrics in their labels; see ``Metric.at``."""
        return replace(self, metrics=tuple(metric.at(values) for metric in self.metrics))

    def score_in(self, metrics: Mapping[str, Any]) -> float | None:
        """The primary metric in a metrics.json; None if it is no finite number."""
        score = metrics.get(f"test_{self.primary.name}")
        if not isinstance(score, (int, float)) or isinstance(score, bool) or not math.isfinite(score):
            return None
        return float(score)

    def validation_metric(self, cuts_groups: bool) -> Metric:
        """The metric by which epochs and trials are compared on validation samples.

        Args:
            cuts_groups: whether these may lack others of their groups; the metric is then the first without groups.
        """
        return next((metric for metric in self.metrics if not (cuts_groups and metric.of_groups)), self.primary)


def measured_with(task: TaskDefinition, values: Mapping[str, Any]) -> Any:
    """The parameters of an earlier evaluation, to evaluate another model in the same way.

    Args:
        values: the evaluate step's parameters, from its manifest.
    """
    known = {parameter.name for parameter in parameters_of(task.evaluation)}
    return build(task.evaluation, {name: value for name, value in values.items() if name in known})
