"""Epochs are judged by validation samples: the best one is exported, and patience ends a training."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.published import PUBLISHED
from components.errors import KfrecError
from components.train.loop.checkpoint import find_checkpoint, find_scored
from components.train.loop.listing import read_list
from components.train.loop.stopping import STOP, request_stop
from components.train.loop.training import Training
from components.train.results import Outcome, best_epoch
from components.training_log import read_log
from tests.train.dataset import write_dataset
from tests.train.in_process import run_worker

STEPS = 10
# DIN is the model that is traced soonest.
SETTINGS = dict(
    model_type="din",
    global_batch_size=20,
    embedding_dim=4,
    seed=7,
    epochs=5,
    average_decay=0.9,
    patience=0,
    **PUBLISHED,
)
PATIENT = dict(patience=2)


def epochs(*values: float | None) -> list[dict[str, Any]]:
    return [{"epoch": number, "validation_auc": value} for number, value in enumerate(values, 1)]


@pytest.mark.parametrize(
    ("values", "higher", "lower"),
    [
        ((0.6, 0.8, 0.7), 2, 1),
        ((0.8, 0.8, 0.7), 1, 3),  # the earlier one of equal ones
        ((None, 0.7, None, 0.8), 4, 2),  # JSON's NaN
        ((None, None), 0, 0),
        ((), 0, 0),
    ],
)
def test_the_best_epoch_is_the_first_with_the_best_defined_value(
    values: Sequence[float | None], higher: int, lower: int
) -> None:
    assert best_epoch(epochs(*values), "validation_auc", True) == higher
    assert best_epoch(epochs(*values), "validation_auc", False) == lower
    assert best_epoch(epochs(*values), "validation_map", True) == 0


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (
            Outcome(5, 5, 3, 3, "validation AUC", 0.84119, True),
            "epoch 3 of 5 is the best: validation AUC 0.8412; exported",
        ),
        (
            Outcome(4, 9, 2, 2, "validation AUC", 0.8, True),
            "stopped early after epoch 4; epoch 2 of 9 is the best: validation AUC 0.8000; exported",
        ),
        (
            Outcome(5, 5, 3, 5, "validation AUC", 0.8, True),
            "epoch 3 of 5 is the best: validation AUC 0.8000; epoch 5, the last one, is exported",
        ),
        (
            Outcome(5, 5, 0, 5, "validation AUC", None, True),
            "validation AUC is undefined after every epoch: epoch 5, the last one, is exported; validate on more "
            "samples",
        ),
        (
            Outcome(5, 5, 0, 5, "validation AUC", None, False),
            "no validation samples judge the epochs: epoch 5, the last one, is exported",
        ),
    ],
)
def test_one_line_tells_which_epoch_is_exported(outcome: Outcome, line: str) -> None:
    assert outcome.line() == line


def arguments(data: Path, out: Path, **changed: Any) -> list[str]:
    out.mkdir(parents=True, exist_ok=True)
    settings = {**SETTINGS, **changed}
    return [f"--dataset_dir={data}", f"--results_dir={out}", *(f"--{name}={value}" for name, value in settings.items())]


def train(data: Path, out: Path, **changed: Any) -> dict[str, Any]:
    """Trains in this process and returns the content of training.json."""
    run_worker(arguments(data, out, **changed), out / "worker.log")
    return training(out)


def training(out: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((out / "training.json").read_text())
    return results


def weights(out: Path) -> list[np.ndarray]:
    """The exported weights."""
    reader = tf.train.load_checkpoint(str(out / "saved_model" / "variables" / "variables"))
    names = sorted(name for name in reader.get_variable_to_shape_map() if name.startswith("by_name/"))
    assert names
    return [reader.get_tensor(name) for name in names]


def require_equal(found: Path, expected: Path) -> None:
    for mine, theirs in zip(weights(found), weights(expected), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.fixture(scope="module")
def falling(two_ranks: Path) -> Path:
    """Data on which every epoch is worse than the one before it. Its test split was deleted."""
    return two_ranks / __name__ / "falling"


@pytest.fixture(scope="module")
def first_epoch(falling: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training of one epoch."""
    out = tmp_path_factory.mktemp("first")
    train(falling, out, epochs=1)
    return out


@pytest.fixture(scope="module")
def whole(falling: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training of five epochs."""
    out = tmp_path_factory.mktemp("whole")
    train(falling, out)
    return out


@pytest.mark.slow
def test_the_best_epoch_is_exported_and_not_the_last(whole: Path, first_epoch: Path) -> None:
    results = training(whole)
    measured = [epoch["validation_auc"] for epoch in results["epochs"]]
    assert len(measured) == 5 and measured[0] > max(measured[1:])
    assert (results["best_epoch"], results["exported_epoch"], results["stopped_early"]) == (1, 1, False)
    assert results["validation_auc"] == measured[0] and results["validation_rows"] == 120
    require_equal(whole, first_epoch)
    assert "epoch 1 of 5 is the best: validation AUC" in (whole / "worker.log").read_text()


@pytest.mark.slow
def test_the_end_of_the_log_has_the_scores_of_the_exported_epoch(whole: Path) -> None:
    # Katib takes the latest value of the file.
    last = [record["data"]["validation_auc"] for record in read_log(whole / "log.json")
            if "validation_auc" in record["data"]][-1]  # fmt: skip
    assert last == training(whole)["epochs"][0]["validation_auc"]


@pytest.mark.slow
def test_the_checkpoint_of_the_best_epoch_outlives_the_newest_ones(whole: Path) -> None:
    folder = whole / "checkpoint"
    assert read_list(folder) == ["ckpt-10", "ckpt-30", "ckpt-40", "ckpt-50"]
    assert {path.name.partition(".")[0] for path in folder.glob("ckpt-*")} == set(read_list(folder))
    assert Path(find_checkpoint(str(whole))).name == "ckpt-50"  # to resume from
    assert Path(find_scored(str(whole))).name == "ckpt-10"
    assert Path(find_scored(str(folder / "ckpt-40"))).name == "ckpt-40"


@pytest.mark.slow
def test_the_last_epoch_is_exported_where_it_is_asked_for(falling: Path, whole: Path, tmp_path: Path) -> None:
    results = train(falling, tmp_path, export_epoch="last")
    assert (results["best_epoch"], results["exported_epoch"]) == (1, 5)
    assert results["validation_auc"] == results["epochs"][-1]["validation_auc"]
    assert read_list(tmp_path / "checkpoint") == ["ckpt-30", "ckpt-40", "ckpt-50"]
    with pytest.raises(AssertionError):
        require_equal(tmp_path, whole)
    with pytest.raises(KfrecError, match="epoch 1 of its training was the best, and its checkpoint was not kept"):
        train(falling, tmp_path / "more", epochs=6, load_checkpoint_path=tmp_path)


@pytest.mark.slow
def test_patience_ends_a_training(falling: Path, first_epoch: Path, tmp_path: Path) -> None:
    results = train(falling, tmp_path, **PATIENT)
    assert (len(results["epochs"]), results["exported_epoch"], results["stopped_early"]) == (3, 1, True)
    require_equal(tmp_path, first_epoch)
    assert "stopped early after epoch 3; epoch 1 of 5 is the best" in (tmp_path / "worker.log").read_text()


@pytest.mark.slow
def test_a_request_to_stop_ends_the_epoch_and_keeps_the_best_one(
    falling: Path, first_epoch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = Training._save

    def save_and_ask(self: Training) -> None:
        save(self)
        request_stop(str(tmp_path / "checkpoint"))

    with monkeypatch.context() as context:
        context.setattr(Training, "_save", save_and_ask)
        results = train(falling, tmp_path, log_steps=4)
    (tmp_path / "checkpoint" / STOP).unlink()  # the last save has asked again
    assert (len(results["epochs"]), results["exported_epoch"], results["stopped_early"]) == (2, 1, True)
    second = results["steps"] - STEPS
    assert 0 < second < STEPS and results["trained_rows"] == 20 * (STEPS + second)
    require_equal(tmp_path, first_epoch)
    assert f"asked to stop: epoch 2 ends with step {second}\n" in (tmp_path / "worker.log").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("saves", "checkpoint_steps"),
    [
        pytest.param(1, 0, id="after the best epoch"),
        pytest.param(4, 6, id="within an epoch"),
    ],
)
def test_a_resumed_training_exports_what_one_without_a_kill_does(
    falling: Path,
    first_epoch: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    saves: int,
    checkpoint_steps: int,
) -> None:
    begun, save = [], Training._save

    def save_and_die(self: Training) -> None:
        save(self)
        begun.append(1)
        if len(begun) == saves:
            raise KfrecError("killed")

    with monkeypatch.context() as context, pytest.raises(KfrecError, match="killed"):
        context.setattr(Training, "_save", save_and_die)
        train(falling, tmp_path / "killed", checkpoint_steps=checkpoint_steps, **PATIENT)
    shutil.move(tmp_path / "killed", tmp_path / "moved")
    results = train(falling, tmp_path / "resumed", load_checkpoint_path=tmp_path / "moved", **PATIENT)
    assert (len(results["epochs"]), results["exported_epoch"], results["stopped_early"]) == (3, 1, True)
    require_equal(tmp_path / "resumed", first_epoch)


@pytest.mark.slow
def test_a_resumed_training_without_the_best_checkpoint_is_one_line(falling: Path, whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole / "checkpoint", tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "ckpt-10.index").unlink()
    with pytest.raises(KfrecError, match=r"ckpt-10: missing, though it is the checkpoint of the best epoch; give"):
        train(falling, tmp_path / "out", epochs=6, load_checkpoint_path=tmp_path)


@pytest.mark.slow
def test_undefined_metrics_export_the_last_epoch(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "tfrecord", train=101, validation=1)
    results = train(data, tmp_path / "out", epochs=2, patience=1)
    assert [epoch["validation_auc"] for epoch in results["epochs"]] == [None, None]
    assert (results["best_epoch"], results["exported_epoch"], results["stopped_early"]) == (None, 2, False)
    assert "validation AUC is undefined after every epoch: epoch 2" in (tmp_path / "out" / "worker.log").read_text()


@pytest.mark.slow
def test_nothing_is_measured_without_validation_samples(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "tfrecord", train=101)
    shutil.rmtree(data / "test")
    results = train(data, tmp_path / "out", epochs=1, validation_share=0)
    assert (results["train_rows"], results["validation_rows"], results["exported_epoch"]) == (101, 0, 1)
    assert not [name for name in results["epochs"][0] if name.startswith(("test_", "validation_"))]
    assert "no validation samples judge the epochs" in (tmp_path / "out" / "worker.log").read_text()
    with pytest.raises(KfrecError, match="parameter patience=2: no samples judge the epochs; raise validation_share"):
        train(data, tmp_path / "patient", epochs=1, validation_share=0, patience=2)


# The third epoch, after the best one.
WITHIN = Path("stopped") / "checkpoint" / "ckpt-21"


def prepare(folder: Path) -> Sequence[Any]:
    """The data, and the training of two ranks with sharded tables."""
    data = write_dataset(folder / "falling", train=20 * STEPS, validation=120, flipped=True)
    shutil.rmtree(data / "test")
    sharded = PATIENT | {"table_placement": "rows", "checkpoint_steps": 7}
    (folder / "asked" / "checkpoint").mkdir(parents=True)
    request_stop(str(folder / "asked" / "checkpoint"))
    return [{name: arguments(data, folder / name, **sharded) for name in ("stopped", "asked")}]


@pytest.mark.slow
def test_two_ranks_end_an_epoch_at_the_same_step(two_ranks: Path) -> None:
    asked = two_ranks / __name__ / "asked"
    results = training(asked)
    assert (len(results["epochs"]), results["exported_epoch"]) == (1, 1) and 0 < results["steps"] < STEPS
    assert not (asked / "checkpoint" / STOP).exists()


@pytest.mark.slow
def test_two_ranks_with_sharded_tables_stop_and_export_the_best_epoch(
    falling: Path, first_epoch: Path, two_ranks: Path, tmp_path: Path
) -> None:
    of_two = two_ranks / __name__
    results = training(of_two / "stopped")
    assert (len(results["epochs"]), results["exported_epoch"], results["stopped_early"]) == (3, 1, True)
    for mine, theirs in zip(weights(of_two / "stopped"), weights(first_epoch), strict=True):
        assert np.abs(mine - theirs).mean() < 1e-4
    folder = of_two / "stopped" / "checkpoint"
    assert read_list(folder) == ["ckpt-10", "ckpt-21", "ckpt-28", "ckpt-30"]
    parts = {path.name.partition(".table-")[0] for path in folder.glob("*.npy")}
    assert parts == set(read_list(folder))
    # A single process goes on with what two wrote, and exports the epoch that two have judged.
    alone = train(falling, tmp_path / "alone", load_checkpoint_path=of_two / WITHIN, **PATIENT)
    assert (len(alone["epochs"]), alone["exported_epoch"]) == (3, 1)
    require_equal(tmp_path / "alone", of_two / "stopped")
