"""The four ways to begin a training: fresh, resumed, continued from another training, or warm from another model.

Unless it is resumed, a model with statistics of the training samples takes them anew.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from components.artifacts.remote import fetch_artifact, read_remote
from components.errors import KfrecError
from components.feature_spec import load_feature_spec
from components.feature_spec.spec import FILENAME
from components.feature_spec.vocabulary import VOCABULARY
from components.models.model import Fitted
from components.steps.training_parameters import LAST, OF_CATEGORY
from components.storage import is_uri
from components.train.loop.checkpoint import Checkpoints, find_checkpoint, read_progress, require_same_model
from components.train.loop.progress import TrainingProgress
from components.train.loop.ranks import SharedError, on_first, together
from components.train.loop.session import Session
from components.train.loop.turnover import changed_rows, start_from_categories
from components.train.loop.uploader import fetch_checkpoint
from components.train.loop.warm_start import fetch_earlier, warm_start


def begin(
    session: Session, checkpoints: Checkpoints, fresh: TrainingProgress
) -> tuple[TrainingProgress, list[np.ndarray]]:
    """Gives a training its first state, on the first rank and on those with table shards; a collective operation.

    Returns:
        The training's progress; and on the first rank the totals of the metrics of its epoch, if it resumes one.
    """
    parameters = session.parameters
    if parameters.load_checkpoint_path:
        return _resume(session, checkpoints, fresh)
    if parameters.continue_path:
        _continue(session, checkpoints, fresh)
    elif parameters.warm_start_path:
        _start_warm(session, checkpoints)
    if isinstance(session.model, Fitted):
        _fit(session, session.model)
    return fresh, []


def _fit(session: Session, model: Fitted) -> None:
    """Fits the model of the first rank to what all ranks count."""
    ranks, train = session.ranks, session.data.train
    batches = train.batches(session.parameters.global_batch_size, rank=ranks.rank, size=ranks.size)
    counts = together(ranks, lambda: model.count(batches))
    counts = ranks.exchange(np.zeros(len(counts[0]), np.int64), counts)
    on_first(ranks, lambda: model.fit(counts))


def _resume(
    session: Session, checkpoints: Checkpoints, fresh: TrainingProgress
) -> tuple[TrainingProgress, list[np.ndarray]]:
    """Restores the checkpoint of this training."""
    parameters = session.parameters

    def found() -> tuple[str, TrainingProgress]:
        prefix = find_checkpoint(parameters.load_checkpoint_path)
        saved = read_progress(prefix)
        require_same_model(prefix, saved, session.model)
        # A benchmark judges nothing.
        mine = replace(fresh, validation_rows=saved.validation_rows) if parameters.benchmark else fresh
        require_same_run(prefix, saved, mine, parameters.seed)
        return prefix, saved

    prefix, progress = on_first(session.ranks, found)
    totals = together(session.ranks, lambda: checkpoints.restore(prefix, progress))
    progress.tables = checkpoints.layout
    progress.steps_per_epoch, progress.global_batch_size = fresh.steps_per_epoch, fresh.global_batch_size
    _carry_best_over(session, checkpoints, progress, prefix)
    return progress, totals


def require_same_run(prefix: str, progress: TrainingProgress, mine: TrainingProgress, seed: int) -> None:
    """Checks the settings that must not change when a training resumes.

    Args:
        seed: the requested seed; -1 takes the checkpoint's.

    Raises:
        KfrecError: they differ.
    """
    compared = {
        "optimizer": (progress.optimizer, mine.optimizer),
        "average_decay": (progress.average_decay, mine.average_decay),
        "seed": (progress.seed, progress.seed if seed < 0 else seed),
        # Scores on other samples cannot be compared, and samples that trained cannot judge.
        "number of validation samples": (progress.validation_rows, mine.validation_rows),
    }
    if progress.step:
        # A position within an epoch is only valid for the same batches.
        compared["global_batch_size"] = (progress.global_batch_size, mine.global_batch_size)
        compared["number of steps an epoch"] = (progress.steps_per_epoch, mine.steps_per_epoch)
    for name, (theirs, ours) in compared.items():
        if theirs != ours:
            raise KfrecError(f"{prefix}: was trained with {name} {theirs}, this run has {ours}; make them the same")


def _carry_best_over(session: Session, checkpoints: Checkpoints, progress: TrainingProgress, prefix: str) -> None:
    """Keeps the checkpoint of the best epoch so far, which may lie in another folder."""
    best = session.best_epoch(progress.epochs)
    if session.parameters.export_epoch == LAST:
        progress.best = ""
    elif best and not progress.best:
        raise SharedError(
            f"{prefix}: epoch {best} of its training was the best, and its checkpoint was not kept; set "
            "export_epoch to last, or start fresh"
        )
    elif progress.best:
        location, ranks = str(Path(prefix).with_name(progress.best)), session.ranks
        together(ranks, lambda: checkpoints.carry_over(location) if ranks.local_rank == 0 else None)


def _continue(session: Session, checkpoints: Checkpoints, fresh: TrainingProgress) -> None:
    """Takes the weights and the optimizers' moments of another training, under a schedule of its own.

    Those of a model are of the epoch that it exported, those of a folder of checkpoints of the newest one.
    Rows of tables whose id stands for another value start afresh, if the other training's vocabulary is known: that of
    a model is, that of a folder of checkpoints is not.
    """
    location = folder = session.parameters.continue_path
    ranks = session.ranks
    if is_uri(location):
        folder = str(Path(session.parameters.stage_dir) / "continue")

        def fetch() -> None:
            fetch_checkpoint(location, Path(folder))
            if read_remote(location, FILENAME) is not None:
                fetch_artifact(location, Path(folder), lambda path: path.startswith((FILENAME, f"{VOCABULARY}/")))

        together(ranks, lambda: fetch() if ranks.local_rank == 0 else None)

    def found() -> tuple[str, TrainingProgress]:
        prefix = find_checkpoint(folder, "continue_path")
        saved = read_progress(prefix)
        if saved.best and (Path(folder) / FILENAME).is_file():
            prefix = str(Path(prefix).with_name(saved.best))
            saved = read_progress(prefix)
        require_same_model(prefix, saved, session.model)
        if saved.optimizer != fresh.optimizer:
            raise KfrecError(
                f"continue_path {prefix}: was trained with optimizer {saved.optimizer}, this run has "
                f"{fresh.optimizer}; make them the same, or take the weights alone with warm_start_path"
            )
        return prefix, saved

    prefix, saved = on_first(ranks, found)

    def take() -> int:
        known = load_feature_spec(Path(folder)) if (Path(folder) / FILENAME).is_file() else None
        afresh = changed_rows(session.model, session.data.spec, known) if known is not None else {}
        checkpoints.continue_from(prefix, saved, afresh)
        if session.parameters.admitted_rows == OF_CATEGORY and session.is_first:
            start_from_categories(session.model, session.data.spec, afresh)
        return sum(map(len, afresh.values()))

    rows = together(ranks, take)
    if session.is_first:
        line = f"continuing the weights and moments of {location} after {saved.global_step:,} steps"
        print(line + (f"; {rows:,} rows of embeddings start afresh" if rows else ""), flush=True)


def _start_warm(session: Session, checkpoints: Checkpoints) -> None:
    """Takes the weights of another model."""
    location, ranks, fresh = session.parameters.warm_start_path, session.ranks, session.definition.fresh
    folder, is_receiver = Path(location), session.is_first or bool(checkpoints.layout)
    if is_uri(location):
        folder = Path(session.parameters.stage_dir) / "warm-start"
        fetches = is_receiver and ranks.local_rank == 0
        together(ranks, lambda: fetch_earlier(location, folder) if fetches else None)
    model, spec = session.model, session.data.spec
    taken = together(ranks, lambda: warm_start(location, folder, model, spec, fresh) if is_receiver else None)
    if session.is_first and taken is not None:
        print(taken.line(location), flush=True)
