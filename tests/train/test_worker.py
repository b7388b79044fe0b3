"""Real workers on a small data set: alone, and two ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.published import PUBLISHED
from components.artifacts import remote
from components.errors import KfrecError
from components.feature_spec import load_feature_spec
from components.metrics import roc_auc
from components.records import Records
from components.train import worker
from components.train.loop import runtime, starts
from components.train.loop.checkpoint import read_progress
from components.train.loop.state import VARIABLES, name_in
from components.train.worker import BAD_INPUT, UNREACHABLE, main
from components.training_log import read_log
from tests.train.dataset import LONG, write_dataset
from tests.train.in_process import run_worker

pytestmark = pytest.mark.slow

# Of an AUC of 301 samples: where a batch of another size rounds differently, a few pairs change their order.
PAIRS = 20 / (301 / 2) ** 2
COMMON = dict(global_batch_size=20, embedding_dim=4, seed=7, epochs=1, average_decay=0.9, patience=0)
SETTINGS = dict(**COMMON, long_seq_length=LONG, **PUBLISHED)  # of SIM
# The model that is traced soonest, where it does not matter which one it is.
SOONEST = dict(model_type="din")


def arguments(data: Path, out: Path, **changed: Any) -> list[str]:
    """Of a worker that trains on ``data`` and writes ``out``, which is made."""
    settings = {**(SETTINGS if "model_type" not in changed else COMMON), **changed}
    out.mkdir(parents=True, exist_ok=True)
    return [f"--dataset_dir={data}", f"--results_dir={out}", *(f"--{k}={v}" for k, v in settings.items())]


def train(data: Path, out: Path, **changed: Any) -> list[dict[str, Any]]:
    """Runs a worker in this process to its end, and returns the records of the log."""
    run_worker(arguments(data, out, **changed), out / "worker.log")
    return read_log(out / "log.json")


def losses(records: list[dict[str, Any]]) -> np.ndarray:
    return np.array([record["data"]["loss"] for record in records if len(record["step"]) == 2])


@pytest.fixture(scope="module")
def data(two_ranks: Path) -> Path:
    return two_ranks / __name__ / "tfrecord"


@pytest.fixture(scope="module")
def alone(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("alone")
    train(data, out, epochs=2, checkpoint_steps=90)
    return out


def prepare(folder: Path) -> Sequence[Any]:
    """The records, and the jobs of two ranks, each of which writes a folder of its name."""
    data = write_dataset(folder / "tfrecord", train=1210, validation=251)
    dropout: dict[str, Any] = {**SOONEST, "dropout_rate": 0.5}
    measured = dict(mode="inference", benchmark="true", benchmark_warmup_steps=1, benchmark_steps=5, seed=8)
    cases = {
        "whole": dropout | {"checkpoint_steps": 30},
        "benchmark": SOONEST | measured | {"global_batch_size": 400},
        # No seed: the checkpoint brings it, for the masks of both ranks, too.
        "resumed": dropout | {"seed": -1, "load_checkpoint_path": folder / "whole" / "checkpoint" / "ckpt-30"},
        # At a rate of 0, so that it ends with the weights that it began with.
        "continued": dropout | {"lr": 0, "seed": 9, "global_batch_size": 40, "continue_path": folder / "whole"},
    }
    return [{name: arguments(data, folder / name, **changed) for name, changed in cases.items()}]


@pytest.fixture(scope="module")
def of_two(two_ranks: Path) -> Path:
    """What two ranks wrote, a folder for each of their jobs."""
    return two_ranks / __name__


def test_every_step_is_logged_and_the_model_learns(alone: Path) -> None:
    records = read_log(alone / "log.json")
    assert records[0]["step"] == "PARAMETER" and records[0]["data"]["seed"] == 7
    assert [record["step"] for record in records if len(record["step"]) == 2] == [
        [epoch, step] for epoch in (1, 2) for step in range(1, 62)
    ]
    curve = losses(records)
    assert curve[-20:].mean() < 0.7 * curve[:20].mean()
    assert json.loads((alone / "training.json").read_text())["validation_auc"] > 0.9


def test_a_resumed_run_goes_on_at_the_exact_step(data: Path, alone: Path, tmp_path: Path) -> None:
    # Step 90 lies in the second epoch: position, batch order, optimizer state and histogram must all be restored.
    resumed = train(data, tmp_path, epochs=2, load_checkpoint_path=alone / "checkpoint" / "ckpt-90")
    whole = read_log(alone / "log.json")
    steps = [record["step"] for record in resumed if len(record["step"]) == 2]
    assert (steps[0], steps[-1]) == ([2, 30], [2, 61])
    np.testing.assert_allclose(losses(resumed), losses(whole)[90:], atol=1e-5)
    results = [json.loads((out / "training.json").read_text()) for out in (alone, tmp_path)]
    assert results[1]["train_auc"] == pytest.approx(results[0]["train_auc"], abs=PAIRS)
    assert results[1]["validation_auc"] == pytest.approx(results[0]["validation_auc"], abs=PAIRS)
    assert [epoch["epoch"] for epoch in results[1]["epochs"]] == [1, 2]


def test_a_run_that_is_resumed_after_its_last_epoch_exports_what_it_has(
    data: Path, alone: Path, tmp_path: Path
) -> None:
    train(data, tmp_path, epochs=2, load_checkpoint_path=alone)
    assert (tmp_path / "checkpoint" / "ckpt-122.index").is_file()
    weights = "saved_model/variables/variables.data-00000-of-00001"
    assert (tmp_path / weights).read_bytes() == (alone / weights).read_bytes()


def test_a_parser_of_the_public_log_finds_its_names(alone: Path) -> None:
    records = read_log(alone / "log.json")
    steps = [record["data"] for record in records if len(record["step"]) == 2]
    epochs = [record["data"] for record in records if len(record["step"]) == 1]
    for step in steps:
        assert step["total_loss"] == step["loss"] and step["samples/s"] > 0
        assert step["classification_loss"] + step["dien_aux_loss"] == pytest.approx(step["total_loss"], abs=1e-5)
    for epoch in epochs:
        assert {"train_auc", "train_loss", "validation_auc"} <= set(epoch)
        assert epoch["throughput"] == epoch["samples_per_second"] and 0 < epoch["time"] < epoch["seconds"]
        assert 0 < epoch["latency_p90"] <= epoch["latency_p95"] <= epoch["latency_p99"]
    assert records[-1]["step"] == []
    assert records[-1]["data"]["time_to_train"] == pytest.approx(sum(epoch["time"] for epoch in epochs))
    exported = epochs[records[-1]["data"]["exported_epoch"] - 1]
    assert records[-1]["data"]["validation_auc"] == exported["validation_auc"]
    assert not any(name.startswith("test_") for name in records[-1]["data"])


def test_two_ranks_with_dropout_go_on_at_the_exact_step(of_two: Path) -> None:
    whole, resumed = (losses(read_log(of_two / name / "log.json")) for name in ("whole", "resumed"))
    assert len(resumed) == 31
    np.testing.assert_allclose(resumed, whole[30:], atol=1e-5)


def test_a_training_continues_weights_and_moments_with_a_schedule_and_epochs_of_its_own(of_two: Path) -> None:
    found, expected = (checkpointed(of_two / name / "checkpoint") for name in ("continued", "whole"))
    assert set(found) == set(expected)
    for name in (name for name in found if name.startswith("model/")):
        np.testing.assert_array_equal(found[name], expected[name], name)
    # 1210 samples are 61 batches of 20 and 31 of 40. The moments are corrected by all of their steps.
    assert (expected["optimizer/0/steps"], expected["optimizer/0/updates"]) == (61, 61)
    assert (found["optimizer/0/steps"], found["optimizer/0/updates"]) == (31, 61 + 31)
    steps = [record["step"] for record in read_log(of_two / "continued" / "log.json") if len(record["step"]) == 2]
    assert (steps[0], steps[-1]) == ([1, 1], [1, 31])
    told = (of_two / "continued-0.log").read_text()
    assert f"continuing the weights and moments of {of_two / 'whole'} after 61 steps" in told


def test_of_a_model_the_exported_epoch_is_continued(
    data: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if the first of its two epochs had been the better one.
    monkeypatch.setattr(starts, "read_progress", lambda prefix: replace(read_progress(prefix), best="ckpt-61"))
    for place, steps in ((alone, 61), (alone / "checkpoint", 122), (alone / "checkpoint" / "ckpt-90", 90)):
        out = tmp_path / place.name
        train(data, out, epochs=1, max_steps=1, lr=0, continue_path=place)
        assert f"continuing the weights and moments of {place} after {steps} steps" in (out / "worker.log").read_text()


def checkpointed(folder: Path) -> dict[str, Any]:
    """The values in the newest checkpoint, by name."""
    reader = tf.train.load_checkpoint(str(folder))
    keys = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(key) for key in keys if (name := name_in(key, VARIABLES))}


def test_the_moments_of_another_optimizer_are_one_line(data: Path, of_two: Path, tmp_path: Path) -> None:
    with pytest.raises(
        KfrecError, match=r"continue_path .*ckpt-61: was trained with optimizer adam, this run has sgd; "
    ):
        train(data, tmp_path, **SOONEST, optimizer="sgd", continue_path=of_two / "whole")


def test_a_training_that_continues_another_one_does_not_start_warm(data: Path, tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match="continue_path=a and warm_start_path=b: a training starts from one of them"):
        train(data, tmp_path, **SOONEST, continue_path="a", warm_start_path="b")


def test_with_dropout_two_ranks_follow_the_loss_curve_of_one(data: Path, of_two: Path, tmp_path: Path) -> None:
    records, alone = read_log(of_two / "whole" / "log.json"), train(data, tmp_path, **SOONEST, dropout_rate=0.5)
    assert records[0]["data"]["workers"] == 2
    np.testing.assert_allclose(losses(records)[:50], losses(alone)[:50], atol=1e-3)
    # 1210 samples are 60 full batches and one of 10, and 251 validation samples are an odd number: nobody waits,
    # nothing is lost.
    training = json.loads((of_two / "whole" / "training.json").read_text())
    assert (training["workers"], training["steps"], training["validation_rows"]) == (2, 61, 251)


def served_auc(data: Path, out: Path, split: str) -> float:
    """The exact AUC of an exported model."""
    serve = tf.saved_model.load(str(out / "saved_model")).signatures["serving_default"]
    inputs = serve.structured_input_signature[1]
    assert set(inputs) == {"uid", "item_trgt", "cat_trgt", "item_pos", "cat_pos"}
    assert {spec.dtype for spec in inputs.values()} == {tf.int64}
    labels, scores = [], []
    for batch in Records(load_feature_spec(data), split).batches(128):
        labels.append(batch["label"])
        scores.append(serve(**{name: tf.constant(batch[name], tf.int64) for name in inputs})["probability"].numpy())
    return roc_auc(np.concatenate(labels), np.concatenate(scores))


def test_the_exported_model_scores_the_validation_split_as_the_training_did(data: Path, alone: Path) -> None:
    training = json.loads((alone / "training.json").read_text())
    exact = served_auc(data, alone, "validation")
    assert exact == pytest.approx(training["validation_auc"], abs=training["validation_auc_error_bound"] + PAIRS)
    assert (alone / "feature_spec.yaml").is_file() and (alone / "parameters.json").is_file()


def test_the_exported_model_scores_many_targets_of_one_user_as_samples(data: Path, alone: Path) -> None:
    signatures = tf.saved_model.load(str(alone / "saved_model")).signatures
    inputs = signatures["serving_default"].structured_input_signature[1]
    batch = next(Records(load_feature_spec(data), "test").batches(50))
    one = {name: batch[name] if name.endswith("_trgt") else batch[name][3:4] for name in inputs}
    repeated = {name: values if len(values) > 1 else np.repeat(values, 50, 0) for name, values in one.items()}
    shared, wanted = (
        signatures[name](**{key: tf.constant(values, tf.int64) for key, values in given.items()})["logit"]
        for name, given in (("targets", one), ("serving_default", repeated))
    )
    np.testing.assert_allclose(shared, wanted, atol=1e-5)


def test_a_checkpoint_scores_the_test_split_as_the_exported_model_does(data: Path, alone: Path, tmp_path: Path) -> None:
    scored = train(data, tmp_path, mode="inference", load_checkpoint_path=alone)[-1]["data"]
    assert scored["test_rows"] == 301
    bound = scored["test_auc_error_bound"] + PAIRS
    assert scored["test_auc"] == pytest.approx(served_auc(data, alone, "test"), abs=bound)


def test_inference_is_benchmarked_on_a_trained_checkpoint(data: Path, alone: Path, tmp_path: Path) -> None:
    measured = train(
        data,
        tmp_path,
        mode="inference",
        benchmark="true",
        benchmark_warmup_steps=2,
        benchmark_steps=20,
        load_checkpoint_path=alone,
    )[-1]["data"]
    assert measured["throughput"] > 0 and measured["steps"] == 20
    assert 0 < measured["latency_p90"] <= measured["latency_p95"] <= measured["latency_p99"]
    told = (tmp_path / "worker.log").read_text()
    assert "inference benchmark of 20 steps" in told and "are repeated to fill batches" not in told


def test_a_model_folder_is_evaluated_on_the_test_split(data: Path, alone: Path, tmp_path: Path) -> None:
    scored = train(data, tmp_path, mode="eval", load_checkpoint_path=alone)[-1]["data"]
    bound = scored["test_auc_error_bound"] + PAIRS
    assert scored["test_auc"] == pytest.approx(served_auc(data, alone, "test"), abs=bound)
    assert f"test AUC {scored['test_auc']:.4f}" in (tmp_path / "worker.log").read_text()


@pytest.mark.parametrize("changed", [{}, {"load_checkpoint_path": "x", "benchmark": "true"}])
def test_an_evaluation_without_weights_or_with_a_benchmark_is_refused(
    changed: dict[str, Any], data: Path, tmp_path: Path
) -> None:
    with pytest.raises(KfrecError, match=r"parameter (mode=eval needs load_checkpoint_path|benchmark=true measures)"):
        train(data, tmp_path, mode="eval", **changed)


def test_two_ranks_benchmark_inference_over_as_many_samples_as_asked(of_two: Path) -> None:
    records = read_log(of_two / "benchmark" / "log.json")
    assert records[-1]["data"]["samples"] == 5 * 400
    steps = records[1:-1]  # after the parameters, with those before the measured ones
    assert [record["step"] for record in steps] == [[1, step] for step in range(1, 7)]
    assert all(record["data"]["samples/s"] > 0 for record in steps)
    repeated = "the 301 samples of the test split are repeated to fill batches of 400"
    assert repeated in (of_two / "benchmark-0.log").read_text()


def test_a_checkpoint_of_another_model_is_one_line(data: Path, alone: Path, tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=r"has shape \[.*\], this model's has \[.*\]; use the parameters"):
        train(data, tmp_path, embedding_dim=8, load_checkpoint_path=alone)


def test_the_worker_runs_where_nothing_launched_it(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "components.train.worker", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert "--global_batch_size" in shown and "--benchmark_warmup_steps" in shown


@pytest.mark.parametrize(("place", "status"), [("http://127.0.0.1:9/tfrecord", UNREACHABLE), ("/none", BAD_INPUT)])
def test_a_store_that_does_not_answer_ends_a_worker_otherwise_than_bad_input(
    place: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(remote, "ATTEMPTS", 1)
    # TensorFlow of this process has run operations, and its threads cannot be set any more.
    monkeypatch.setattr(runtime, "configure", lambda *_: None)
    monkeypatch.setenv("KFREC_EVENTS", "1")
    assert main([f"--dataset_dir={place}", f"--results_dir={tmp_path}", f"--stage_dir={tmp_path}"]) == status
    (event,) = [json.loads(line) for line in capfd.readouterr().out.splitlines() if line.startswith('{"kfrec"')]
    assert event["kfrec"] == "error" and place in event["message"]
    assert event.get("unreachable", False) is (status == UNREACHABLE)


@pytest.mark.parametrize(
    ("allocate", "told"),
    [
        (lambda: tf.zeros([1 << 21, 1 << 21]), "a float tensor of shape [2097152,2097152] on CPU:0"),
        (lambda: tf.numpy_function(lambda: np.empty(1 << 60, np.uint8), [], tf.uint8), "1.00 EiB"),
    ],
)
def test_too_little_memory_is_one_line_and_not_tried_again(
    allocate: Callable[[], object],
    told: str,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(worker, "_run", lambda *_: allocate())
    monkeypatch.setattr(worker, "end_with_parent", lambda *_: None)
    assert main([f"--dataset_dir={data}", f"--results_dir={tmp_path}", "--model_type=din"]) == BAD_INPUT
    (line,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error:")]
    assert line.startswith(f"error: train: out of memory for {told}; lower global_batch_size")
