"""What a worker does from start to end: a training with its results, or an inference run."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

from components.steps.catalog import WorkerParameters
from components.steps.parameter import as_plain
from components.train.benchmark import Benchmark, benchmark_inference, benchmark_training
from components.train.checkpoint import find_checkpoint, read_standing, require_same_model, restore_weights
from components.train.export import FOLDER as SAVED_MODEL
from components.train.export import export
from components.train.log import PARAMETER, TrainingLog
from components.train.ranks import Ranks, together
from components.train.results import PARAMETERS, TRAINING, copy_data_description, training_results, write_json
from components.train.runtime import drawn_seed
from components.train.session import Session, open_session
from components.train.training import Training


def run_training(folder: Path, parameters: WorkerParameters, ranks: Ranks) -> None:
    """Trains, and on the first rank exports the model; with ``benchmark`` only measures training steps."""
    parameters = _with_seed(parameters, ranks)
    session = together(ranks, lambda: open_session(folder, parameters, ranks, parameters.seed))
    with _open_log(session, append=bool(parameters.load_checkpoint_path)) as log:
        training = Training(session, log)
        log.write(PARAMETER, as_plain(session.parameters))
        if parameters.benchmark:
            _report(session, log, benchmark_training(session, training.step.run, training.standing.seed), "training")
            return
        training.run()
        if session.is_first:
            results = training_results(
                training.standing, ranks.size, session.data.rows_per_epoch, session.data.test.rows
            )
            log.write([], {name: value for name, value in results.items() if name != "epochs"})
            out = Path(parameters.results_dir)
            copy_data_description(session.data.spec, parameters.feature_spec, out)
            shapes = session.data.signature(session.model.serving_features)
            export(session.model, shapes, out / SAVED_MODEL)
            seeded = dataclasses.replace(parameters, seed=training.standing.seed)
            write_json(out / PARAMETERS, as_plain(seeded))
            write_json(out / TRAINING, results)


def run_inference(folder: Path, parameters: WorkerParameters, ranks: Ranks) -> None:
    """Scores the test split with a checkpoint's weights, or with ``benchmark`` measures how fast that goes."""
    parameters = _with_seed(parameters, ranks)
    session = together(ranks, lambda: open_session(folder, parameters, ranks, parameters.seed))
    together(ranks, lambda: _load_weights(session))
    ranks.copy_variables(session.model.variables)
    with _open_log(session, append=False) as log:
        log.write(PARAMETER, as_plain(parameters))
        if parameters.benchmark:
            _report(session, log, benchmark_inference(session), "inference")
            return
        score = session.test_score()
        metrics = {"test_auc": score.auc.value, "test_logloss": score.logloss, "test_rows": score.rows}
        log.write([], {name: None if math.isnan(value) else value for name, value in metrics.items()})
        if session.is_first:
            print(f"test AUC {score.auc.value:.4f}, log loss {score.logloss:.4f}, {score.rows} samples", flush=True)
