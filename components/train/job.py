"""The work of a worker: a training with its results, or an inference run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from components.models import Model
from components.parameters import as_plain, bytes_of
from components.scoring.model import TABLES
from components.steps.catalog import WorkerParameters
from components.train.export import copy_gathered, export, sharded_bytes, write_tables
from components.train.loop.benchmark import Benchmark, benchmark_inference, benchmark_training
from components.train.loop.checkpoint import find_scored, read_progress, require_same_model
from components.train.loop.progress import TrainingProgress
from components.train.loop.ranks import Ranks, on_first, together
from components.train.loop.runtime import drawn_seed
from components.train.loop.session import Session, load_weights, open_session
from components.train.loop.training import Training
from components.train.results import (
    PARAMETERS,
    SAVED_MODEL,
    copy_data_description,
    require_own_results,
    training_results,
    write_json,
)
from components.training_log import PARAMETER, TRAINING, TrainingLog


def run_training(
    folder: Path,
    parameters: WorkerParameters,
    ranks: Ranks,
    checkpoint_saved: Callable[[str, str], None] = lambda prefix, best: None,
) -> None:
    """Trains and exports the model from the first rank; with ``benchmark`` only measures training steps.

    Args:
        checkpoint_saved: see ``components.train.loop.checkpoint.Checkpoints``.
    """
    seed = on_first(ranks, lambda: _prepared(parameters))
    session = together(ranks, lambda: open_session(folder, parameters, ranks, seed, checkpoint_saved))
    training = Training(session, seed)
    seed = training.progress.seed
    with _open_log(session, seed, append=bool(parameters.load_checkpoint_path)) as log:
        if parameters.benchmark:
            _report(session, log, benchmark_training(session, training.step.steps, seed, log))
            return
        training.run(log)
        data, outcome = session.data, training.outcome
        if session.is_first:
            print(outcome.line(), flush=True)
        validation_rows = data.scored.rows if data.scored is not None else 0
        results = training_results(training.progress, outcome, ranks.size, training.trained_rows, validation_rows)
        log.write([], {name: value for name, value in results.items() if name != "epochs"})
        _write_results(session, seed, results)


def run_inference(folder: Path, parameters: WorkerParameters, ranks: Ranks) -> None:
    """Scores the test split with the weights that a training exports, or with ``benchmark`` measures the throughput."""
    seed = on_first(ranks, lambda: _prepared(parameters))
    session = together(ranks, lambda: open_session(folder, parameters, ranks, seed))
    weights = on_first(ranks, lambda: _find_weights(session))
    if weights:
        load_weights(session, *weights)
    with _open_log(session, seed) as log:
        if parameters.benchmark:
            _report(session, log, benchmark_inference(session, log))
            return
        scored = session.data.scored
        assert scored is not None
        split, rows = session.data.samples.measured, scored.rows
        metrics = session.score() | {f"{split}_rows": rows}
        log.write([], {name: None if math.isnan(value) else value for name, value in metrics.items()})
        if session.is_first:
            scores = ", ".join(f"{split} {m.label} {metrics[f'{split}_{m.name}']:.4f}" for m in session.task.metrics)
            print(f"{scores}, {rows} samples", flush=True)


def _prepared(parameters: WorkerParameters) -> int:
    """Checks the results folder; returns the seed."""
    require_own_results(Path(parameters.results_dir), parameters.log_filename)
    return drawn_seed(parameters.seed)


def _open_log(session: Session, seed: int, append: bool = False) -> TrainingLog:
    """The run's log, with its parameters in the first line."""
    parameters = session.parameters
    path = Path(parameters.results_dir) / parameters.log_filename if session.is_first else None
    log = together(session.ranks, lambda: TrainingLog(path, append))
    log.write(PARAMETER, {**as_plain(parameters), "seed": seed, "workers": session.ranks.size})
    log.flush()
    return log


def _report(session: Session, log: TrainingLog, measured: Benchmark) -> None:
    log.write([], measured.metrics())
    if session.is_first:
        print(measured.summary(session.parameters.mode), flush=True)


def _find_weights(session: Session) -> tuple[str, TrainingProgress] | None:
    """The checkpoint to score with and its training's progress, on the first rank."""
    path = session.parameters.load_checkpoint_path
    if not path:
        print("no load_checkpoint_path given: the weights are random, so only the speed is meaningful", flush=True)
        return None
    prefix = find_scored(path)
    progress = read_progress(prefix)
    require_same_model(prefix, progress, session.model)
    return prefix, progress


def _write_results(session: Session, seed: int, results: Mapping[str, Any]) -> None:
    """Writes the results on the first rank; the others send their shards of the tables."""
    parameters, data = session.parameters, session.data
    out = Path(parameters.results_dir)
    limit, size = bytes_of(parameters.largest_export), sharded_bytes(session.model)
    too_big = size > limit
    if too_big:
        write_tables(session.model, out / TABLES, session.ranks)
    served = None if too_big else _served(session, seed)
    if not session.is_first:
        return
    copy_data_description(data.spec, parameters.feature_spec, out)
    if served is not None:
        with session.definition.serving():
            export(served, session.task, data.signature(session.model.serving_features), out / SAVED_MODEL)
    else:
        print(
            f"the sharded embedding tables have {size / 1e9:,.2f} GB, more than largest_export="
            f"{parameters.largest_export}: there is no {SAVED_MODEL}, and the folder {TABLES} has a file for each "
            "table; to export one, raise largest_export where the first rank has that memory",
            flush=True,
        )
    write_json(out / PARAMETERS, {**as_plain(parameters), "seed": seed})
    write_json(out / TRAINING, results)


def _served(session: Session, seed: int) -> Model | None:
    """The model to export, on the first rank: with whole tables, and in float32 even after mixed-precision training,
    because it may be served on a CPU."""
    if not (session.parameters.amp or sharded_bytes(session.model)):
        return session.model
    model = None
    if session.is_first:
        model = session.definition.build(session.parameters, session.data.spec, seed, False)
    copy_gathered(session.model, model, session.ranks)
    return model
