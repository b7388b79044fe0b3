"""A training step traced as on a GPU trains as one of the definitions."""

from contextlib import nullcontext
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.published import PUBLISHED
from components.models.ops.choice import as_with_gpu
from components.steps.catalog import worker_parameters
from components.train.loop import training_step
from tests.train.dataset import LONG, samples, specification
from tests.train.loop.building import build_step


def losses_of(folder, on_gpu: bool, **given) -> list[float]:
    """The losses of three steps."""
    parameters = worker_parameters("sim")(
        model_type="sim", embedding_dim=4, long_seq_length=LONG, lr=0.01, seed=1, **PUBLISHED, **given
    )
    step = build_step(parameters, specification(folder), tf.int64)
    batches = [{n: tf.constant(v, tf.int64) for n, v in samples(50, seed=seed).items()} for seed in range(3)]
    if on_gpu:
        with as_with_gpu():
            return [float(step.run(batch)) for batch in batches]
    with mock.patch.object(training_step, "training_back_end", lambda compiled=False: nullcontext()):
        return [float(step.run(batch)) for batch in batches]


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> list[float]:
    """The losses of the definitions."""
    return losses_of(tmp_path_factory.mktemp("definitions"), False)


@pytest.mark.slow
def test_its_losses_are_those_of_the_definitions(tmp_path, expected):
    np.testing.assert_allclose(losses_of(tmp_path, True), expected, atol=1e-5)


@pytest.mark.slow
def test_lazily_its_losses_are_those_of_the_definitions(tmp_path):
    found, expected = (losses_of(tmp_path, on_gpu, optimizer="lazy_adam") for on_gpu in (True, False))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.slow
def test_compiled_by_xla_its_losses_are_those_of_the_definitions(tmp_path, expected):
    np.testing.assert_allclose(losses_of(tmp_path, True, xla=True), expected, atol=1e-5)
