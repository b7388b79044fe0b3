"""ELECTRA's loss and outputs, by parts that other tests compare with the published program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.errors import KfrecError
from components.feature_spec import Feature, FeatureSpec
from components.models.draws import draws_at
from components.models.electra import MODEL
from components.models.electra.masking import mask_tokens, replaced_by, sampled_tokens
from components.models.electra.model import Electra, generator_sizes
from components.models.encoder import check_positions
from components.models.loss import loss_of
from components.models.optimizers.schedules import at, rise_and_fall
from components.parameters import build
from components.steps.catalog import worker_parameters
from components.text.outputs import MASKED, MASKED_CORRECT, MASKED_LOSS, REPLACED, REPLACED_LOGIT
from tests.models.electra.conftest import LENGTH, SPECIAL

NO_DROPOUT = dict(hidden_dropout=0.0, attention_dropout=0.0)


def softmax(logits: np.ndarray) -> np.ndarray:
    exponents = np.exp(logits - logits.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


def test_the_loss_is_that_of_masked_tokens_and_fifty_times_that_of_all(
    text_spec: FeatureSpec, sizes: Any, make_texts: Any
) -> None:
    model, texts = Electra(sizes(**NO_DROPOUT), text_spec, seed=1), make_texts(8)
    for variable in model.variables:
        variable.assign(np.random.default_rng(1).normal(size=variable.shape) * 0.2)
    tokens, segments = (tf.constant(texts[name]) for name in ("input_ids", "segment_ids"))
    with draws_at(1):
        outputs, terms = model.loss_terms(texts, {}, tf.ones([8], tf.bool))
        masked = mask_tokens(tokens, SPECIAL, 0.15, 0.85)
        logits = model.generator_head(model.generator(model.embed(masked.inputs, segments), tokens > 0)).numpy()
        at_masked = np.take_along_axis(logits, masked.positions.numpy()[..., np.newaxis], 1)
        corrupted = replaced_by(tokens, masked, sampled_tokens(tf.constant(at_masked)))
    counted, originals = masked.is_masked.numpy(), masked.originals.numpy()
    likelihoods = np.take_along_axis(softmax(at_masked), originals[..., np.newaxis], -1)[..., 0]
    generator = -np.log(likelihoods)[counted]
    scores = model.head(model.encoder(model.embed(corrupted, segments), tokens > 0)).numpy()
    replaced, is_token = corrupted.numpy() != texts["input_ids"], texts["input_ids"] > 0
    assert replaced.any() and not replaced[~is_token].any()
    probabilities = 1 / (1 + np.exp(-scores))
    discriminator = -np.log(np.where(replaced, probabilities, 1 - probabilities))[is_token]
    expected = generator.mean() + 50 * discriminator.mean()
    np.testing.assert_allclose(loss_of(terms.values()), expected, rtol=1e-4)
    np.testing.assert_allclose(outputs[REPLACED_LOGIT].numpy()[is_token], scores[is_token], rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(outputs[REPLACED], np.where(is_token, replaced, -1))
    np.testing.assert_array_equal(outputs[MASKED], counted.sum(1))
    correct = (at_masked.argmax(-1) == originals) & counted
    np.testing.assert_array_equal(outputs[MASKED_CORRECT], correct.sum(1))
    np.testing.assert_allclose(outputs[MASKED_LOSS].numpy().sum(), generator.sum(), rtol=1e-4)


def test_the_discriminators_loss_moves_the_generator_by_the_shared_embeddings_alone(
    text_spec: FeatureSpec, sizes: Any, make_texts: Any
) -> None:
    model, texts = Electra(sizes(), text_spec, seed=1), make_texts(8)
    with draws_at(1), tf.GradientTape() as tape:
        _, terms = model.loss_terms(texts, {}, tf.ones([8], tf.bool))
        loss = loss_of([terms["discriminator"]])
    gradients = dict(zip([v.name for v in model.variables], tape.gradient(loss, model.variables), strict=True))
    for name, gradient in gradients.items():
        assert (gradient is None) == name.startswith("generator/"), name


def test_an_evaluation_masks_a_text_alike_in_any_batch_and_for_any_model(
    text_spec: FeatureSpec, sizes: Any, make_texts: Any
) -> None:
    model, texts = Electra(sizes(), text_spec, seed=1), make_texts(9)
    whole = model.outputs(texts)
    part = model.outputs({name: values[[7, 2]] for name, values in texts.items()})
    np.testing.assert_array_equal(part[REPLACED], whole[REPLACED].numpy()[[7, 2]])
    np.testing.assert_allclose(part[REPLACED_LOGIT], whole[REPLACED_LOGIT].numpy()[[7, 2]], rtol=1e-4, atol=1e-5)
    for variable in model.variables:
        if variable.name.startswith("encoder"):
            variable.assign(variable * 1.5)
    np.testing.assert_array_equal(model.outputs(texts)[REPLACED], whole[REPLACED])


def test_half_precision_returns_float32_and_is_close(text_spec: FeatureSpec, sizes: Any, make_texts: Any) -> None:
    texts, mask = make_texts(8), tf.ones([8], tf.bool)
    losses = []
    for amp in (False, True):
        model = Electra(sizes(**NO_DROPOUT), text_spec, seed=1, amp=amp)
        with draws_at(1):
            outputs, terms = model.loss_terms(texts, {}, mask)
        assert outputs[REPLACED_LOGIT].dtype == tf.float32
        losses.append(float(loss_of(terms.values())))
    assert losses[1] == pytest.approx(losses[0], rel=0.05)


@pytest.mark.parametrize(
    ("size", "encoder", "generator", "embedding"),
    [
        ("small", (12, 256, 4, 1024), (12, 64, 1, 256), 128),
        ("base", (12, 768, 12, 3072), (12, 256, 4, 1024), 768),
        ("large", (24, 1024, 16, 4096), (24, 256, 4, 1024), 1024),
    ],
)
def test_sizes_are_the_published_ones(size: str, encoder: Any, generator: Any, embedding: int) -> None:
    parameters = MODEL.parameters(electra_size=size)
    assert parameters.sizes[:4] == encoder and generator_sizes(parameters)[:4] == generator
    assert parameters.embedding_width == embedding


def test_the_published_first_phase_is_the_default() -> None:
    parameters = worker_parameters("electra")()
    assert (parameters.global_batch_size, parameters.max_steps, parameters.clip_norm) == (67_584, 10_000, 1.0)
    rate = rise_and_fall(parameters.learning_rate, 10_000, parameters.warmup_share, 0.5)
    for step, value in {0: 0, 1000: 3e-3, 2000: 6e-3, 4000: 6e-3 * 0.75**0.5, 10_000: 0, 12_000: 0}.items():
        assert float(at(rate, tf.constant(float(step)))) == pytest.approx(value, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"attention_heads": "5"}, "attention_heads=5: does not divide encoder_width=768"),
        ({"encoder_width": "100"}, "attention_heads=12: does not divide encoder_width=100"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_in_one_line(given: dict[str, str], message: str) -> None:
    with pytest.raises(KfrecError, match=message):
        build(worker_parameters("electra"), given)


def test_texts_longer_than_the_positions_are_refused_in_one_line(text_spec: FeatureSpec, sizes: Any) -> None:
    with pytest.raises(KfrecError, match=f"input_ids={LENGTH}: is longer than the positions=12"):
        Electra(sizes(positions=12), text_spec, seed=1)
    check_positions(sizes(positions=12), {})


def test_channels_that_do_not_fit_are_refused_in_one_line(text_spec: FeatureSpec, sizes: Any) -> None:
    shorter = {**text_spec.features, "segment_ids": Feature("segment_ids", "int8", 1, LENGTH - 1)}
    with pytest.raises(KfrecError, match=r"channel tokens has input_ids \[40\], segment_ids \[39\]; name the tokens"):
        Electra(sizes(), replace(text_spec, features=shorter), seed=1)
    with pytest.raises(KfrecError, match="has no tokens"):
        Electra(sizes(), replace(text_spec, channels={}), seed=1)
    without = {**text_spec.features, "input_ids": Feature("input_ids", "int32", None, LENGTH)}
    with pytest.raises(KfrecError, match="input_ids has no cardinality"):
        Electra(sizes(), replace(text_spec, features=without), seed=1)
