"""The common state of training and inference: data, model and ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components import registry
from components.feature_spec import load_feature_spec
from components.feature_spec.side_tables import side_tables
from components.feature_spec.spec import VALIDATION
from components.models import Model, ModelDefinition
from components.progress import progress
from components.records import prefetched
from components.steps.catalog import WorkerParameters
from components.tasks import Kept, Metric, TaskDefinition, kept_features, missing_column
from components.train.loop.checkpoint import restore_weights
from components.train.loop.data import TrainingData, open_data
from components.train.loop.progress import TrainingProgress
from components.train.loop.ranks import Ranks, together
from components.train.loop.state import shared_state_of
from components.train.loop.tables import build_placed, table_memory
from components.train.loop.transfer import Batch
from components.train.loop.validation import Scorer
from components.train.results import best_epoch

AUTOMATIC_PREFETCH = 4


@dataclass(frozen=True)
class Session:
    """One worker's view of a run.

    Attributes:
        kept: the task's kept columns present in the data, to their features.
        checkpoint_saved: see ``components.train.loop.checkpoint.Checkpoints``.
    """

    parameters: WorkerParameters
    ranks: Ranks
    data: TrainingData
    definition: ModelDefinition
    model: Model
    task: TaskDefinition
    kept: Mapping[Kept, str]
    scorer: Scorer
    checkpoint_saved: Callable[[str, str], None]

    @property
    def is_first(self) -> bool:
        """Whether this rank prints and writes files."""
        return self.ranks.rank == 0

    @contextmanager
    def progress(self, label: str, total: int, unit: str, initial: int = 0) -> Iterator[Callable[[int], None]]:
        """Shows a progress bar on the first rank; yields the function that advances it."""
        if not self.is_first:
            yield lambda count: None
            return
        with progress(label, total, unit, initial) as bar:
            yield bar.advance

    def training_batches(self, seed: int, epoch: int, first_step: int = 0) -> Iterator[Any]:
        """Prefetched batches of ``TrainingData.train_transfer``."""
        batches = map(self.data.train_transfer.sent, self.data.training_batches(seed, epoch, first_step))
        return prefetched(batches, _ahead(self.parameters.prefetch_train_size))

    def full_scored_batches(self) -> Iterator[Any]:
        """Prefetched batches of ``TrainingData.scored_transfer``, of ``TrainingData.full_scored_batches``."""
        return self._sent(self.data.full_scored_batches())

    def _sent(self, batches: Iterator[Batch]) -> Iterator[Any]:
        return prefetched(map(self.data.scored_transfer.sent, batches), _ahead(self.parameters.prefetch_test_size))

    @property
    def judge(self) -> Metric:
        return self.task.validation_metric(self.data.samples.cuts_groups)

    def best_epoch(self, epochs: Sequence[Mapping[str, Any]]) -> int:
        """Number of the best of the finished epochs; 0 if none was judged."""
        return best_epoch(epochs, f"{VALIDATION}_{self.judge.name}", self.judge.higher_is_better)

    def score(self) -> dict[str, float]:
        """The task's metrics on the samples to score, named with the split; none without such samples.

        Metrics of groups are left out where groups are cut. A collective operation with the same result on every rank.
        """
        samples = self.data.samples
        if not samples.measured:
            return {}
        left_out = {metric.name for metric in self.task.metrics if metric.of_groups and samples.cuts_groups}
        scores = self.scorer.score(self._sent(self.data.scored_batches()))
        return {f"{samples.measured}_{name}": value for name, value in scores.items() if name not in left_out}


def open_session(
    folder: Path,
    parameters: WorkerParameters,
    ranks: Ranks,
    seed: int,
    checkpoint_saved: Callable[[str, str], None] = lambda prefix, best: None,
) -> Session:
    """Opens the data and builds the model.

    Args:
        checkpoint_saved: see ``components.train.loop.checkpoint.Checkpoints``.

    Raises:
        KfrecError: no specification, or see ``components.train.loop.data.open_data``; or the model does not fit
            into memory.
    """
    memory = table_memory(parameters, ranks)  # before anything can fail on one rank alone
    spec = load_feature_spec(folder, parameters.feature_spec)
    definition = registry.model(parameters.model_type)
    model = build_placed(definition, parameters, spec, ranks, seed, memory)
    task = registry.task(parameters.task or definition.task).at(vars(parameters))
    kept = kept_features(spec, task.streamed)
    scored = tuple(dict.fromkeys((*model.serving_features, *kept.values())))
    data = open_data(spec, parameters, ranks, scored)
    lacking = missing_column(spec, task.kept)
    if lacking and ranks.rank == 0:
        print(f"not measured: {lacking}", flush=True)
    transfer = data.scored_transfer
    rows = data.one_size(data.scored.rows, data.scored_batch_size) if data.scored is not None else 0
    scorer = Scorer(
        model,
        task,
        ranks,
        transfer.signature,
        data.targets,
        kept,
        parameters,
        parameters.xla,
        rows,
        transfer.features,
        side_tables(folder),
    )
    return Session(parameters, ranks, data, definition, model, task, kept, scorer, checkpoint_saved)


def load_weights(session: Session, prefix: str, progress: TrainingProgress) -> None:
    """Gives the model the weights that a training exports, on every rank."""
    ranks, model = session.ranks, session.model
    together(ranks, lambda: restore_weights(prefix, progress, model, session.is_first))
    ranks.copy_variables(shared_state_of(model))


def _ahead(prefetch: int) -> int:
    return AUTOMATIC_PREFETCH if prefetch < 0 else prefetch
