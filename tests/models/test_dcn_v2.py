"""DCN V2 against NumPy, and what it makes of unusual tables."""

from typing import Any

import numpy as np
import pytest

from components.feature_spec import FeatureSpec
from components.models.draws import draws_at
from tests.models.calling import logits, loss_terms
from tests.train.building import build_model


def _crossed(model: Any, first: np.ndarray) -> np.ndarray:
    x = first
    for number, layer in enumerate(model.cross.wide):
        kernel = layer.kernel.numpy()
        if model.cross.narrow:
            kernel = model.cross.narrow[number].numpy() @ kernel
        x = first * (x @ kernel + layer.bias.numpy()) + x
    return x


def _deep(model: Any, x: np.ndarray) -> np.ndarray:
    layers = list(zip(model.deep.kernels, model.deep.biases, strict=True))
    for kernel, bias in layers[:-1]:
        x = np.maximum(x @ kernel.numpy() + bias.numpy(), 0)
    return x @ layers[-1][0].numpy() + layers[-1][1].numpy()


def _inputs(model: Any, features: Any) -> np.ndarray:
    """Tags are a list, whose 0s are padding."""
    city, tags = (model.tables[name].variable.numpy() for name in ("city", "tags"))
    many = (tags[features["tags"]] * (np.asarray(features["tags"]) > 0)[..., None]).sum(1)
    return np.concatenate([city[features["city"]], many, np.stack([features["price"], features["age"]], 1)], 1)


@pytest.mark.parametrize("structure", ["parallel", "stacked"])
@pytest.mark.parametrize("rank", [0, 3])
def test_logits_are_those_of_the_formula(spec, parameters, make_batch, structure, rank):
    model: Any = build_model(parameters("dcn_v2", structure=structure, cross_rank=rank), spec)
    features, _ = make_batch(11)
    x = _inputs(model, features)
    crossed = _crossed(model, x)
    expected = _deep(model, crossed) if structure == "stacked" else crossed @ model.output.numpy() + _deep(model, x)
    read = {name: features[name] for name in model.serving_features}
    np.testing.assert_allclose(logits(model, read), expected[:, 0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("left", [("categorical",), ("multihot",), ("numerical",)])
def test_a_table_may_lack_kinds_of_columns(spec, parameters, make_batch, left):
    channels = {"label": spec.channels["label"], **{name: spec.channels[name] for name in left}}
    model: Any = build_model(parameters("dcn_v2"), FeatureSpec(spec.features, {}, channels))
    features, labels = make_batch(7)
    found, terms = loss_terms(model, {name: features[name] for name in model.serving_features}, labels)
    assert found.shape == (7,) and np.isfinite(terms["cross_entropy"].total).all()


def test_embeddings_start_within_the_limit(spec, parameters):
    def largest(**values: float) -> list[float]:
        model: Any = build_model(parameters("dcn_v2", **values), spec)
        return [np.abs(table.variable.numpy()).max() for table in model.tables.values()]

    assert all(0 < value <= 0.05 for value in largest(embedding_limit=0.05))
    assert all(value > 0.05 for value in largest())


def test_dropout_acts_on_every_hidden_layer_and_in_training_only(spec, parameters, make_batch):
    model: Any = build_model(parameters("dcn_v2", deep_dropout=0.5, deep_hidden_units=(50, 20)), spec)
    features, labels = make_batch(9)
    with draws_at(1):
        trained = loss_terms(model, features, labels)[0].numpy()
    assert not np.allclose(trained, logits(model, features))
    assert len(model.deep.dropouts) == 2
