"""ELECTRA: a generator replaces tokens of a text, and a discriminator tells which."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import tensorflow as tf

from components.feature_spec import FeatureSpec
from components.models.draws import draws_by
from components.models.electra import ElectraParameters
from components.models.electra.masking import mask_tokens, replaced_by, sampled_tokens
from components.models.encoder import PUBLISHED, read_text
from components.models.layers.dense import Dense
from components.models.layers.layer_norm import LayerNorm
from components.models.layers.token_embeddings import TokenEmbeddings
from components.models.layers.transformer import Encoder, Sizes, gelu, initial_kernel
from components.models.layers.weights import Weights
from components.models.loss import LossTerm
from components.models.model import Table
from components.text.outputs import CORRUPTED, MASKED, MASKED_CORRECT, MASKED_LOSS, REPLACED, REPLACED_LOGIT
from components.text.special import special_tokens

# Of the draws of an evaluation, which are the same for every model.
_EVALUATION_SEED = 0
# Added to the logits of the rows that fill the table of words up.
_NO_TOKEN = -1e9


def generator_sizes(parameters: ElectraParameters) -> Sizes:
    """A share of the encoder's width in whole heads, and as many layers.

    Of the published base model a third of 12 heads of 64, which is 256.
    """
    sizes = parameters.sizes
    share = parameters.generator_share or PUBLISHED[parameters.electra_size].generator_share
    heads = math.ceil(round(sizes.heads * share, 6))
    width = heads * sizes.width // sizes.heads
    return sizes._replace(width=width, heads=heads, feed_forward=sizes.feed_forward * width // sizes.width)


class MaskedTokenHead(tf.Module):
    """``norm(gelu(h W + b)) E^T + c``: the logits of all tokens, with the embeddings E of the tokens."""

    def __init__(self, weights: Weights, sizes: Sizes, embeddings: TokenEmbeddings, vocabulary: int) -> None:
        super().__init__()
        rows, width = embeddings.words.shape
        initial = partial(initial_kernel, deviation=sizes.deviation)
        self.dense = Dense(weights.scope("dense"), sizes.width, width, initial)
        self.norm = LayerNorm(weights.scope("layer_norm"), width)
        self.bias = weights.constant("bias", (vocabulary,))
        self._words, self._surplus = embeddings.words, rows - vocabulary

    def __call__(self, states: tf.Tensor) -> tf.Tensor:
        """``[B, N, width]`` to float32 ``[B, N, rows of the table of words]``."""
        hidden = self.norm(gelu(self.dense(states)))
        rows, width = self._words.shape
        # One product without a transposed copy of the table, which tf.tensordot makes.
        logits = tf.matmul(tf.reshape(hidden, [-1, width]), tf.cast(self._words, hidden.dtype), transpose_b=True)
        bias = tf.pad(self.bias, [[0, self._surplus]], constant_values=_NO_TOKEN)
        return tf.reshape(tf.cast(logits, tf.float32) + bias, [-1, hidden.shape[1], rows])


class ReplacedTokenHead(tf.Module):
    """``w . gelu(h W + b) + c``: the log-odds that a token was replaced."""

    def __init__(self, weights: Weights, sizes: Sizes) -> None:
        super().__init__()
        initial = partial(initial_kernel, deviation=sizes.deviation)
        self.dense = Dense(weights.scope("dense"), sizes.width, sizes.width, initial)
        self.output = Dense(weights.scope("output"), sizes.width, 1, initial)

    def __call__(self, states: tf.Tensor) -> tf.Tensor:
        """``[B, L, width]`` to float32 ``[B, L]``."""
        return tf.squeeze(self.output(tf.cast(gelu(self.dense(states)), tf.float32)), -1)


class _Pass(NamedTuple):
    """What a forward pass computes of masked tokens, ``[B, N]``, and of all tokens, ``[B, L]``; losses are 0 elsewhere.

    Attributes:
        masked_losses: ``-log p(original)`` by the generator.
        is_masked: float32, 1 for a masked token.
        is_correct: float32, 1 where the generator's likeliest token is the original.
        is_replaced: float32, 1 where the token differs from the original.
        is_token: float32, 0 for padding.
        corrupted: the tokens that the discriminator reads.
    """

    masked_losses: tf.Tensor
    is_masked: tf.Tensor
    is_correct: tf.Tensor
    logits: tf.Tensor
    is_replaced: tf.Tensor
    is_token: tf.Tensor
    corrupted: tf.Tensor


class Electra(tf.Module):
    """A generator and a discriminator, which share the embeddings of tokens, positions and segments.

        generator:      masked text -> a token for each masked position, drawn from its softmax
        discriminator:  text with these tokens -> for each token, whether it differs from the original
        loss = mean over masked tokens of -log p(original) + 50 * mean over tokens of the discriminator's cross-entropy

    Masks and draws of a training depend on its seed, the step and the sample; those of ``outputs`` outside of a
    training depend on the sample's tokens alone, so that every evaluation of a text masks the same positions.

    Args:
        spec: with the channel ``tokens`` and the ids of the special tokens.
        amp: whether to compute in float16; weights, normalisations, softmaxes, logits and losses are float32.

    References:
        Clark et al., ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators,
        https://arxiv.org/abs/2003.10555
    """

    def __init__(self, parameters: ElectraParameters, spec: FeatureSpec, seed: int, amp: bool = False) -> None:
        super().__init__()
        weights, dtype = Weights(seed), tf.float16 if amp else tf.float32
        channels = self._channels = read_text(spec, parameters)
        self.serving_features = (channels.tokens.name, channels.segments.name)
        self._special = special_tokens(spec)
        self._masked_share = parameters.masked_share
        self._weight = parameters.replaced_weight
        sizes, narrow, width = parameters.sizes, generator_sizes(parameters), parameters.embedding_width
        self.embed = TokenEmbeddings(
            weights.scope("embeddings"),
            channels.vocabulary,
            parameters.positions,
            width,
            sizes.dropout,
            dtype,
            sizes.deviation,
        )
        self.tables = {channels.tokens.name: Table(self.embed.words, 0, channels.vocabulary)}
        generator = weights.scope("generator")
        self.generator = Encoder(generator, width, narrow)
        self.generator_head = MaskedTokenHead(generator.scope("head"), narrow, self.embed, channels.vocabulary)
        self.encoder = Encoder(weights.scope("encoder"), width, sizes)
        self.head = ReplacedTokenHead(weights.scope("replaced"), sizes)

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        """See ``components.models.model.Model``.

        Returns:
            REPLACED_LOGIT: float32 ``[B, L]``; REPLACED: int8 ``[B, L]``, 1 for a replaced token, 0 for an original
            one, -1 for padding; CORRUPTED: int32 ``[B, L]``, the tokens that the discriminator reads; MASKED,
            MASKED_CORRECT and MASKED_LOSS: float32 ``[B]``, the number of masked tokens, those whose likeliest token is
            the original, and the sum of their losses.
        """
        tokens = features[self._channels.tokens.name]
        if training:
            return _outputs(self._pass(features, training))
        with draws_by(_EVALUATION_SEED, tokens):
            return _outputs(self._pass(features, training))

    def loss_terms(
        self,
        features: Mapping[str, tf.Tensor],
        targets: Mapping[str, tf.Tensor],
        mask: tf.Tensor,
        training: bool = True,
    ) -> tuple[dict[str, tf.Tensor], dict[str, LossTerm]]:
        found = self._pass(features, training)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(found.is_replaced, found.logits) * found.is_token
        outputs = _outputs(found)
        return outputs, {
            "generator": LossTerm(outputs[MASKED_LOSS], outputs[MASKED], 1.0),
            "discriminator": LossTerm(tf.reduce_sum(losses, 1), tf.reduce_sum(found.is_token, 1), self._weight),
        }

    def _pass(self, features: Mapping[str, tf.Tensor], training: bool) -> _Pass:
        tokens, segments = (features[name] for name in self.serving_features)
        is_token = tokens != self._special.pad
        masked = mask_tokens(tokens, self._special, self._masked_share)
        states = self.generator(self.embed(masked.inputs, segments, training), is_token, training)
        logits = self.generator_head(tf.matmul(tf.cast(masked.selection, states.dtype), states))
        counted = tf.cast(masked.is_masked, tf.float32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(masked.originals, logits) * counted
        originals = tf.cast(masked.originals, tf.int64)
        is_correct = tf.cast(tf.argmax(logits, -1) == originals, tf.float32) * counted
        corrupted = replaced_by(tokens, masked, sampled_tokens(logits))
        states = self.encoder(self.embed(corrupted, segments, training), is_token, training)
        is_replaced = tf.cast(corrupted != tokens, tf.float32)
        return _Pass(
            losses, counted, is_correct, self.head(states), is_replaced, tf.cast(is_token, tf.float32), corrupted
        )


def _outputs(found: _Pass) -> dict[str, tf.Tensor]:
    replaced = tf.where(found.is_token > 0, found.is_replaced, -1.0)
    return {
        REPLACED_LOGIT: found.logits,
        REPLACED: tf.cast(replaced, tf.int8),
        CORRUPTED: tf.cast(found.corrupted, tf.int32),
        MASKED: tf.reduce_sum(found.is_masked, 1),
        MASKED_CORRECT: tf.reduce_sum(found.is_correct, 1),
        MASKED_LOSS: tf.reduce_sum(found.masked_losses, 1),
    }
