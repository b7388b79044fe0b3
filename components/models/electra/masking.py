"""Which tokens of a text are masked, and what the generator makes of them."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from components.models.draws import uniform
from components.text.special import SpecialTokens

# Of the tokens that are predicted, those that become [MASK], as published; the others stay as they are.
MASK_TOKEN_SHARE = 0.85


class Masked(NamedTuple):
    """Masked positions of a batch; at most N of a text.

    Attributes:
        positions: integers ``[B, N]``, distinct in each text.
        is_masked: bool ``[B, N]``, false beyond a text's number of masked tokens.
        originals: the tokens there, ``[B, N]``.
        selection: float32 ``[B, N, L]``, 1 at each masked position; rows that are not masked are 0.
        inputs: the texts with [MASK] at most of the masked positions, ``[B, L]``.
    """

    positions: tf.Tensor
    is_masked: tf.Tensor
    originals: tf.Tensor
    selection: tf.Tensor
    inputs: tf.Tensor


def most_masked(length: int, share: float) -> int:
    """The largest number of masked tokens of a text, ``(share + 0.005) * length`` rounded down, and at least 1."""
    return max(1, int((share + 0.005) * length))


def mask_tokens(
    tokens: tf.Tensor, special: SpecialTokens, share: float, mask_token_share: float = MASK_TOKEN_SHARE
) -> Masked:
    """Draws the masked positions of each text.

    Of a text of n tokens, ``round(share * n)`` are masked, at least one and at most ``most_masked``; special tokens are
    not. They are drawn without replacement, so that their number is exact; the published program draws them with
    replacement. Each becomes [MASK] with probability ``mask_token_share`` and stays otherwise.

    Args:
        tokens: integers ``[B, L]``, padded with 0.
        mask_token_share: of these, those that become [MASK].
    """
    length = tokens.shape[1]
    most, batch = most_masked(length, share), tf.shape(tokens)[0]
    ids = tf.constant([special.cls, special.sep, special.mask], tokens.dtype)
    is_special = tf.reduce_any(tokens[..., tf.newaxis] == ids, -1)
    is_token = tokens != special.pad
    keys = tf.where(is_token & ~is_special, uniform("masking/positions", [batch, length]), -1.0)
    drawn, positions = tf.math.top_k(keys, most)
    count = tf.reduce_sum(tf.cast(is_token, tf.float32), 1, keepdims=True)
    wanted = tf.clip_by_value(tf.round(share * count), 1.0, float(most))
    is_masked = (tf.range(most, dtype=tf.float32) < wanted) & (drawn >= 0)
    selection = tf.one_hot(positions, length) * tf.cast(is_masked, tf.float32)[..., tf.newaxis]
    becomes_mask = uniform("masking/tokens", [batch, most]) < mask_token_share
    is_hidden = tf.reduce_max(selection * tf.cast(becomes_mask, tf.float32)[..., tf.newaxis], 1) > 0
    inputs = tf.where(is_hidden, tf.constant(special.mask, tokens.dtype), tokens)
    originals = tf.reduce_sum(tf.where(selection > 0, tokens[:, tf.newaxis], 0), -1)
    return Masked(positions, is_masked, originals, selection, inputs)


def sampled_tokens(logits: tf.Tensor) -> tf.Tensor:
    """Draws a token from the softmax of each position: ``argmax(logits - log(-log u))``, u uniform.

    Args:
        logits: float32 ``[B, N, V]``.

    Returns:
        int64 ``[B, N]``; without a gradient.

    References:
        Gumbel, Statistical Theory of Extreme Values, 1954; Maddison et al., https://arxiv.org/abs/1411.0030
    """
    noise = -tf.math.log(-tf.math.log(uniform("masking/samples", [tf.shape(logits)[0], *logits.shape[1:]])))
    return tf.stop_gradient(tf.argmax(logits + noise, -1))


def replaced_by(tokens: tf.Tensor, masked: Masked, samples: tf.Tensor) -> tf.Tensor:
    """The texts with these tokens at the masked positions.

    Args:
        tokens: of the texts, ``[B, L]``.
        samples: integers ``[B, N]``.

    Returns:
        As the tokens.
    """
    is_placed = masked.selection > 0
    placed = tf.reduce_sum(tf.where(is_placed, tf.cast(samples, tokens.dtype)[..., tf.newaxis], 0), 1)
    return tf.where(tf.reduce_any(is_placed, 1), placed, tokens)
