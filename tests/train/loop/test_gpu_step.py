"""A training step traced as on a GPU trains as one of the definitions."""

import numpy as np
import pytest
import tensorflow as tf

from components import registry
from components.models import build_model
from components.models.ops.choice import as_with_gpu
from components.models.optimizers.groups import Optimizers
from components.steps.catalog import worker_parameters
from components.tasks.binary.streaming import BinaryMetrics
from components.train.loop import training_step
from components.train.loop.loss_scale import LossScale
from components.train.loop.ranks import Alone
from components.train.loop.training_step import TrainingStep
from tests.models.ops.gpu.test_recurrence import emulated
from tests.train.dataset import LONG, samples, specification


def trained(folder, on_gpu: bool, monkeypatch, **given) -> tuple[list[float], list[np.ndarray]]:
    """The losses of three steps, and the weights after them."""
    parameters = worker_parameters("sim")(
        embedding_dim=4, long_seq_length=LONG, dropout_rate=-1.0, lr=0.01, seed=1, **given
    )
    spec = specification(folder)
    model = build_model(parameters, spec, seed=1)
    rule = Optimizers(registry.model("sim").optimizers(parameters, model, 1), model.trainable_variables)
    shapes: dict[str, list[int | None]] = {
        name: [None] if f.length is None else [None, f.length] for name, f in spec.features.items()
    }
    signature = {name: tf.TensorSpec(shape, tf.int64, name=name) for name, shape in shapes.items()}
    metrics, scale = BinaryMetrics(with_loss=False), LossScale(parameters.amp)
    step = TrainingStep(model, rule, Alone(), metrics, scale, signature, "label", parameters.xla)
    batches = [{n: tf.constant(v, tf.int64) for n, v in samples(50, seed=seed).items()} for seed in range(3)]
    with monkeypatch.context() as patched:
        if on_gpu:
            patched.setattr(tf.raw_ops, "CudnnRNN", emulated)
            with as_with_gpu():
                losses = [float(step.run(batch)) for batch in batches]
        else:
            patched.setattr(training_step, "training_back_end", lambda compiled=False: monkeypatch.context())
            losses = [float(step.run(batch)) for batch in batches]
    return losses, [variable.numpy() for variable in model.trainable_variables]


@pytest.mark.parametrize("optimizer", ["adam", "lazy_adam"])
def test_its_losses_are_those_of_the_definitions(tmp_path, monkeypatch, optimizer):
    found, _ = trained(tmp_path, True, monkeypatch, optimizer=optimizer)
    expected, _ = trained(tmp_path, False, monkeypatch, optimizer=optimizer)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.slow
def test_compiled_by_xla_its_losses_are_those_of_the_definitions(tmp_path, monkeypatch):
    found, _ = trained(tmp_path, True, monkeypatch, xla=True)
    expected, _ = trained(tmp_path, False, monkeypatch)
    np.testing.assert_allclose(found, expected, atol=1e-5)
