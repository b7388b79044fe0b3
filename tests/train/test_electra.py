"""ELECTRA on records of texts: workers alone, and two of them; its phases; what fine-tuning takes of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.artifacts import adopt
from components.errors import KfrecError
from components.evaluate.step import run as evaluate
from components.feature_spec import load_feature_spec
from components.models.electra_qa import HEAD, ElectraQaParameters
from components.models.electra_qa.model import ElectraQa
from components.models.names import name_of
from components.steps.catalog import STEPS
from components.train.loop.state import VARIABLES, name_in
from components.train.loop.warm_start import warm_start, weights_of
from components.training_log import read_log
from tests.models.electra_qa.test_model import specification as questions
from tests.train.in_process import run_worker
from tests.train.texts import LENGTH, VOCABULARY, write_texts

pytestmark = pytest.mark.slow

LONG = LENGTH + 16
SIZES: dict[str, Any] = dict(
    encoder_layers=1, encoder_width=16, attention_heads=2, feed_forward_width=32, token_width=8, positions=LONG
)  # fmt: skip
SETTINGS: dict[str, Any] = dict(
    model_type="electra", seed=7, epochs=2, max_steps=20, steps_per_epoch=12, global_batch_size=24, clip_norm=1,
    generator_share=0.5, optimizer="lamb", learning_rate=0.02, warmup_share=0.1, hidden_dropout=0, attention_dropout=0,
    micro_batch_size=0, export_epoch="last", **SIZES,
)  # fmt: skip
# Three micro-batches a step.
MICRO = 8
# A worker that kills itself in the step after the 18th, when the second of its micro-batches begins.
KILLED_BETWEEN_MICRO_BATCHES = f"""
import os, signal, sys
import tensorflow as tf
from components.train import worker
from components.train.loop.training_step import TrainingStep

whole = TrainingStep._loss_and_gradients

def until_killed(self, batch, counts, position):
    def end(step, first):
        if step == 18 and first == {MICRO}:
            os.kill(os.getpid(), signal.SIGKILL)
    with tf.control_dependencies([tf.py_function(end, [position[0], position[1]], [])]):
        return whole(self, batch, counts, tf.identity(position))

TrainingStep._loss_and_gradients = until_killed
sys.exit(worker.main(sys.argv[1:]))
"""


def arguments(data: Path, out: Path, **changed: Any) -> list[str]:
    """Of a worker that trains on ``data`` and writes ``out``, which is made."""
    out.mkdir(parents=True, exist_ok=True)
    return [f"--dataset_dir={data}", f"--results_dir={out}", *(f"--{k}={v}" for k, v in (SETTINGS | changed).items())]


def train(data: Path, out: Path, **changed: Any) -> np.ndarray:
    """Runs a worker in this process to its end, and returns the losses of its steps."""
    run_worker(arguments(data, out, **changed), out / "worker.log")
    return losses(out)


def losses(out: Path) -> np.ndarray:
    return np.array([record["data"]["loss"] for record in read_log(out / "log.json") if len(record["step"]) == 2])


def training(out: Path) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((out / "training.json").read_text())
    return body


def checkpoint(out: Path) -> dict[str, np.ndarray]:
    """The newest checkpoint's values by name."""
    reader = tf.train.load_checkpoint(str(out / "checkpoint"))
    names = {key: name for key in reader.get_variable_to_shape_map() if (name := name_in(key, VARIABLES)) is not None}
    return {name: reader.get_tensor(key) for key, name in names.items()}


def prepare(folder: Path) -> Sequence[Any]:
    """The texts, and what two ranks train on them."""
    data = write_texts(folder / "texts")
    return [{"two": arguments(data, folder / "two")}]


@pytest.fixture(scope="module")
def data(two_ranks: Path) -> Path:
    return two_ranks / __name__ / "texts"


@pytest.fixture(scope="module")
def alone(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one rank trains, with three micro-batches a step."""
    out = tmp_path_factory.mktemp("alone")
    train(data, out, micro_batch_size=MICRO, checkpoint_steps=4)
    return out


def test_neither_ranks_nor_micro_batches_change_the_loss_curve(alone: Path, two_ranks: Path) -> None:
    two = two_ranks / __name__ / "two"
    assert len(losses(two)) == 20
    np.testing.assert_allclose(losses(two), losses(alone), rtol=2e-5)
    masked = [training(out)["epochs"][0]["train_masked_accuracy"] for out in (alone, two)]
    assert masked[0] == pytest.approx(masked[1], abs=2e-3)  # of 12 steps' masked tokens, the same ones


def test_a_training_that_is_killed_between_two_micro_batches_resumes_as_if_it_was_not(
    data: Path, alone: Path, tmp_path: Path
) -> None:
    given = arguments(data, tmp_path, micro_batch_size=MICRO, checkpoint_steps=4)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_BETWEEN_MICRO_BATCHES, *given], capture_output=True, text=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert tf.train.latest_checkpoint(str(tmp_path / "checkpoint")).endswith("ckpt-16")
    found = train(data, tmp_path, micro_batch_size=MICRO, checkpoint_steps=4)
    np.testing.assert_allclose(found, losses(alone), rtol=1e-6)
    whole, resumed = checkpoint(alone), checkpoint(tmp_path)
    assert whole.keys() == resumed.keys()
    for name, values in whole.items():
        np.testing.assert_allclose(resumed[name], values, rtol=1e-5, atol=1e-7, err_msg=name)


def test_a_second_phase_of_longer_texts_keeps_weights_and_moments_and_begins_its_schedule(
    alone: Path, tmp_path: Path
) -> None:
    longer = write_texts(tmp_path / "longer", train=40, test=10, length=LONG)
    changed: dict[str, Any] = dict(continue_path=alone, epochs=1, max_steps=4, warmup_share=1.0, global_batch_size=8)
    found = train(longer, tmp_path / "second", **changed)
    first, second = checkpoint(alone), checkpoint(tmp_path / "second")
    assert (first["optimizer/0/steps"], second["optimizer/0/steps"]) == (20, 4)
    assert (first["optimizer/0/updates"], second["optimizer/0/updates"]) == (20, 24)
    # The first loss is that of the first phase's last weights, and the rate begins at 0.
    assert abs(found[0] - losses(alone)[-1]) < 2 < losses(alone)[0] - found[0]
    assert training(tmp_path / "second")["steps"] == 4


def test_an_evaluation_measures_what_the_training_does(data: Path, alone: Path, tmp_path: Path, store: str) -> None:
    adopt(alone)
    parameters = STEPS["evaluate"].of(task="replaced_token", experiment="electra")
    folders = {name: tmp_path / name for name in ("first", "second")}
    metrics = []
    for folder, size in zip(folders.values(), (7, 60), strict=True):
        given = STEPS["evaluate"].of(
            task="replaced_token", experiment=parameters.experiment, evaluation_batch_size=size
        )
        evaluate(given, tfrecord=data, model=alone, evaluation=folder)
        metrics.append(json.loads((folder / "metrics.json").read_text()))
    assert metrics[0]["test_rows"] == 60
    # The masks are the same in batches of 7 and of 60.
    assert metrics[0]["test_masked_tokens"] == metrics[1]["test_masked_tokens"]
    assert metrics[0]["test_loss"] == pytest.approx(metrics[1]["test_loss"], rel=1e-4)
    assert metrics[0]["test_loss"] == pytest.approx(training(alone)["epochs"][-1]["validation_loss"], abs=2)
    assert "Replaced tokens" in (folders["first"] / "report.html").read_text()


def test_fine_tuning_takes_the_encoder_and_leaves_the_generator(data: Path, alone: Path) -> None:
    spec = load_feature_spec(data)
    texts = {name: spec.features[name] for name in spec.channels["tokens"]}
    asked = questions()
    mixed = type(asked)(
        {**asked.features, **texts, "p_mask": asked.features["p_mask"].__class__("p_mask", "int8", None, LENGTH)},
        {}, asked.channels, {**asked.metadata, **spec.metadata}, spec.folder,
    )  # fmt: skip
    model = ElectraQa(ElectraQaParameters(**SIZES), mixed, seed=3)
    taken = warm_start(str(alone), alone, model, mixed, fresh=(HEAD,))
    theirs = weights_of(alone)
    for variable in model.variables:
        name = name_of(variable)
        assert name.startswith(HEAD) == (name not in theirs)
        if name in theirs:
            np.testing.assert_array_equal(variable[:VOCABULARY], theirs[name].read()[:VOCABULARY], err_msg=name)
    assert all(name.startswith(HEAD) for name in taken.new)
    assert {name.partition("/")[0] for name in taken.unread} == {"generator", "replaced"}
    smaller = ElectraQa(ElectraQaParameters(**{**SIZES, "feed_forward_width": 24}), mixed, seed=3)
    with pytest.raises(KfrecError, match=r"its encoder/layer_0/feed_forward/hidden/\w+ has shape .*this model's has"):
        warm_start(str(alone), alone, smaller, mixed, fresh=(HEAD,))
