"""ELECTRA's states and logits are those of the transformers package, with the same weights."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.feature_spec import FeatureSpec
from components.models.electra.model import Electra
from components.models.layers.transformer import Sizes
from components.models.names import name_of
from tests.models.electra.conftest import LENGTH, VOCABULARY

pytestmark = pytest.mark.slow  # their package takes seconds to import

# Part of a name here, and there.
RENAMED = (
    ("embeddings/words", "embeddings/word_embeddings/weight"),
    ("embeddings/positions", "embeddings/position_embeddings/embeddings"),
    ("embeddings/segments", "embeddings/token_type_embeddings/embeddings"),
    ("embeddings/layer_norm", "embeddings/LayerNorm"),
    ("projection", "embeddings_project"),
    ("attention/query", "attention/self/query"),
    ("attention/key", "attention/self/key"),
    ("attention/value", "attention/self/value"),
    ("attention/output", "attention/output/dense"),
    ("attention/layer_norm", "attention/output/LayerNorm"),
    ("feed_forward/hidden", "intermediate/dense"),
    ("feed_forward/output", "output/dense"),
    ("feed_forward/layer_norm", "output/LayerNorm"),
)
HEADS = (
    ("generator/head/bias", "generator_lm_head/bias"),
    ("generator/head/dense", "generator_predictions/dense"),
    ("generator/head/layer_norm", "generator_predictions/LayerNorm"),
    ("replaced/dense", "discriminator_predictions/dense"),
    ("replaced/output", "discriminator_predictions/dense_prediction"),
)


@pytest.fixture(autouse=True, scope="module")
def keras_stays() -> Iterator[None]:
    """Otherwise the package asks all later processes for another Keras."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TF_USE_LEGACY_KERAS", "0")
        yield


def theirs(kind: str, sizes: Sizes, width: int) -> Any:
    os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
    import transformers

    config = transformers.ElectraConfig(
        vocab_size=VOCABULARY,
        embedding_size=width,
        hidden_size=sizes.width,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        intermediate_size=sizes.feed_forward,
        max_position_embeddings=LENGTH + 5,
        output_hidden_states=True,
    )
    model = getattr(transformers, kind)(config)
    model(tf.zeros([1, 4], tf.int32))  # creates the variables
    return model


def copy(ours: Electra, model: Any, scope: str) -> None:
    """Gives their model our weights; a weight of theirs without a counterpart is an error."""
    by_their_name = {}
    for variable in ours.variables:
        name = name_of(variable)
        head = next((pair for pair in HEADS if name.startswith(pair[0])), None)
        if head:
            by_their_name[name.replace(*head)] = variable
        elif name.startswith((scope, "embeddings")):
            for old, new in RENAMED:
                name = name.replace(old, new)
            by_their_name[name.removeprefix(f"{scope}/").replace("layer_", "layer_._")] = variable
    for weight in model.weights:
        (found,) = [v for name, v in by_their_name.items() if weight.name.removesuffix(":0").endswith(name)]
        weight.assign(found[: weight.shape[0]])


@pytest.mark.parametrize("width", [8, 16], ids=["projected", "as wide as the encoder"])
def test_states_and_logits_are_theirs(text_spec: FeatureSpec, sizes: Any, make_texts: Any, width: int) -> None:
    parameters = sizes(token_width=width)
    ours = Electra(parameters, text_spec, seed=1)
    for variable in ours.variables:  # far from 0, also biases
        variable.assign(np.random.default_rng(1).normal(size=variable.shape) * 0.3)
    texts = make_texts(6, lengths=[LENGTH, 5, 17, 33, 6, LENGTH])
    tokens, segments = texts["input_ids"], texts["segment_ids"]
    embedded, visible = ours.embed(tf.constant(tokens), tf.constant(segments)), tf.constant(tokens > 0)
    narrow = ours.generator.transformer.layers[0].attention.query.kernel.shape[1]
    generator_sizes = parameters.sizes._replace(width=narrow, heads=narrow * 4 // 16, feed_forward=narrow * 2)
    given = dict(input_ids=tokens, attention_mask=(tokens > 0).astype("i4"), token_type_ids=segments)

    generator = theirs("TFElectraForMaskedLM", generator_sizes, width)
    copy(ours, generator, "generator")
    found, states = generator(given), ours.generator(embedded, visible)
    np.testing.assert_allclose(states, found.hidden_states[-1], atol=1e-5, rtol=1e-5)
    logits = ours.generator_head(states)
    np.testing.assert_allclose(logits[..., :VOCABULARY], found.logits, atol=1e-5, rtol=1e-5)
    assert (logits[..., VOCABULARY:].numpy() < -1e8).all()

    discriminator = theirs("TFElectraForPreTraining", parameters.sizes, width)
    copy(ours, discriminator, "encoder")
    found, states = discriminator(given), ours.encoder(embedded, visible)
    np.testing.assert_allclose(states, found.hidden_states[-1], atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(ours.head(states), found.logits, atol=1e-5, rtol=1e-5)
