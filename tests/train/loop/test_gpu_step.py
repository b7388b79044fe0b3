"""A training step traced as on a GPU trains as one of the definitions."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.published import PUBLISHED
from components.models.ops.choice import as_with_gpu
from components.steps.catalog import worker_parameters
from components.train.loop import training_step
from tests.train.dataset import LONG, samples, specification
from tests.train.loop.building import build_step


def losses_of(folder, on_gpu: bool, monkeypatch, **given) -> list[float]:
    """The losses of three steps."""
    parameters = worker_parameters("sim")(
        model_type="sim", embedding_dim=4, long_seq_length=LONG, lr=0.01, seed=1, **PUBLISHED, **given
    )
    step = build_step(parameters, specification(folder), tf.int64)
    batches = [{n: tf.constant(v, tf.int64) for n, v in samples(50, seed=seed).items()} for seed in range(3)]
    with monkeypatch.context() as patched:
        if on_gpu:
            with as_with_gpu():
                return [float(step.run(batch)) for batch in batches]
        patched.setattr(training_step, "training_back_end", lambda compiled=False: monkeypatch.context())
        return [float(step.run(batch)) for batch in batches]


@pytest.mark.parametrize("optimizer", ["adam", "lazy_adam"])
def test_its_losses_are_those_of_the_definitions(tmp_path, monkeypatch, optimizer):
    found = losses_of(tmp_path, True, monkeypatch, optimizer=optimizer)
    expected = losses_of(tmp_path, False, monkeypatch, optimizer=optimizer)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.slow
def test_compiled_by_xla_its_losses_are_those_of_the_definitions(tmp_path, monkeypatch):
    found = losses_of(tmp_path, True, monkeypatch, xla=True)
    expected = losses_of(tmp_path, False, monkeypatch)
    np.testing.assert_allclose(found, expected, atol=1e-5)
