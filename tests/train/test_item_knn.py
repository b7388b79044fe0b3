"""A training of item-kNN counts its samples once, alone, on two ranks and when it is resumed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.train.loop.warm_start import weights_of
from components.training_log import read_log
from tests.fakes import small_histories
from tests.train.in_process import run_worker

COUNTED = ("counted/items", "counted/shares", "counted/units", "counted/popularity")
SETTINGS = dict(model_type="item_knn", neighbours=5, global_batch_size=20, epochs=2, seed=7, patience=0)


def write_data(folder: Path) -> Path:
    splits = {name: small_histories.draw(rows, seed) for seed, (name, rows) in enumerate(
        {"train/a": 90, "train/b": 70, "test/a": 30}.items())}  # fmt: skip
    return small_histories.write(folder, splits)


def arguments(data: Path, out: Path, **changed: Any) -> list[str]:
    out.mkdir(parents=True, exist_ok=True)
    return [f"--dataset_dir={data}", f"--results_dir={out}", *(f"--{k}={v}" for k, v in (SETTINGS | changed).items())]


def prepare(folder: Path) -> Sequence[Any]:
    return [{"two": arguments(write_data(folder / "tfrecord"), folder / "two")}]


def train(data: Path, out: Path, **changed: Any) -> list[float]:
    """The losses of the steps."""
    run_worker(arguments(data, out, **changed), out / "worker.log")
    return losses(out)


def losses(out: Path) -> list[float]:
    return [record["data"]["loss"] for record in read_log(out / "log.json") if len(record["step"]) == 2]


def weights(out: Path) -> dict[str, np.ndarray]:
    return {name: weight.read() for name, weight in weights_of(out).items()}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    train(write_data(folder / "tfrecord"), folder / "model", checkpoint_steps=10)
    return folder


def test_it_counts_the_samples_that_train_and_learns_two_weights(alone: Path) -> None:
    found = weights(alone / "model")
    assert set(found) == {*COUNTED, "decay", "popular"}
    # Each item that is left has its neighbours' shares.
    np.testing.assert_allclose(found["counted/shares"].sum(1)[found["counted/units"] > 0], 1, rtol=1e-5)
    assert found["counted/popularity"].sum() == pytest.approx(1, rel=1e-5)
    assert not found["counted/items"][: small_histories.FIRST_ID].any()
    epochs = json.loads((alone / "model" / "training.json").read_text())["epochs"]
    assert all(epoch["validation_ndcg"] >= 0 for epoch in epochs)


def test_a_resumed_training_goes_on_with_what_was_counted(alone: Path, tmp_path: Path) -> None:
    resumed = train(
        alone / "tfrecord", tmp_path / "model", load_checkpoint_path=alone / "model" / "checkpoint" / "ckpt-10"
    )
    np.testing.assert_allclose(resumed, losses(alone / "model")[10:], rtol=1e-5)
    for name, values in weights(alone / "model").items():
        np.testing.assert_allclose(weights(tmp_path / "model")[name], values, rtol=1e-5)


def test_a_warm_start_takes_the_learned_weights_and_counts_anew(alone: Path, tmp_path: Path) -> None:
    train(alone / "tfrecord", tmp_path / "model", warm_start_path=alone / "model", neighbours=3, lr=0.0, epochs=1)
    found, earlier = weights(tmp_path / "model"), weights(alone / "model")
    np.testing.assert_allclose(found["decay"], earlier["decay"], rtol=1e-6)
    np.testing.assert_array_equal(found["counted/items"], earlier["counted/items"][:, :3])


@pytest.mark.slow
def test_two_ranks_count_what_one_does(alone: Path, two_ranks: Path) -> None:
    found = weights(two_ranks / __name__ / "two")
    for name, values in weights(alone / "model").items():
        np.testing.assert_allclose(found[name], values, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(losses(two_ranks / __name__ / "two"), losses(alone / "model"), rtol=1e-4)
