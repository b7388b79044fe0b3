"""A training step with kernels and one without."""

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from components.feature_spec import FeatureSpec
from components.models.ops.choice import host_back_end
from components.steps.catalog import TrainParameters
from components.train.building import build_model
from components.train.loop import training_step
from components.train.loop.training_step import TrainingStep
from tests.models.calling import logits
from tests.models.ops.host.agreement import CALL, operations
from tests.train.loop.building import build_step


def _operations(step: TrainingStep) -> list[str]:
    graph = step.run.get_concrete_function().graph.as_graph_def()
    bodies = [graph.node, *(function.node_def for function in graph.library.function)]
    return [node.op for body in bodies for node in body]


def _losses(step: TrainingStep, make_batch: Callable) -> list[float]:
    losses = []
    for seed in range(4):
        features, labels = make_batch(70, seed=seed)
        batch = {name: tf.constant(values) for name, values in {**features, "label": labels.astype(np.int32)}.items()}
        losses.append(float(step.run(batch)))
    return losses


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model_type", "optimizer"), [("sim", "adam"), ("sim", "lazy_adam"), ("dien", "adam"), ("din", "lazy_adam")]
)
def test_the_losses_are_those_of_tensorflow(
    model_type: str,
    optimizer: str,
    parameters: Callable[..., TrainParameters],
    spec: FeatureSpec,
    make_batch: Callable,
    monkeypatch: pytest.MonkeyPatch,
):
    chosen = parameters(model_type, embedding_dim=16, optimizer=optimizer)
    step = build_step(chosen, spec)
    assert CALL in _operations(step)
    with monkeypatch.context() as without:
        without.setattr(training_step, "training_back_end", lambda compiled=False: host_back_end(False))
        plain = build_step(chosen, spec)
        assert CALL not in _operations(plain)
        expected = _losses(plain, make_batch)
    np.testing.assert_allclose(_losses(step, make_batch), expected, rtol=1e-5)


def test_scoring_calls_no_kernels(parameters: Callable[..., TrainParameters], spec: FeatureSpec, make_batch: Callable):
    model = build_model(parameters("sim", embedding_dim=16), spec, seed=1)
    features, _ = make_batch(3)
    serve = tf.function(lambda given: logits(model, given), autograph=False)
    assert CALL not in operations(serve, {name: tf.constant(values) for name, values in features.items()})
