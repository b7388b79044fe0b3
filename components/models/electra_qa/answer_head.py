"""The head of a model of questions: where an answer starts, where it ends given its start, and whether there is one."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import tensorflow as tf

from components.models.layers.dense import Dense
from components.models.layers.layer_norm import LayerNorm
from components.models.layers.transformer import DEVIATION, initial_kernel
from components.models.layers.weights import Weights

# Logit of a position that no answer can have, and the least score of a span; finite in float32.
NEVER = -1e30


class Spans(NamedTuple):
    """The likeliest spans of texts, N = beam * beam of each.

    Attributes:
        starts: int32 ``[B, N]``.
        ends: int32 ``[B, N]``, inclusive; may lie before the start.
        scores: float32 ``[B, N]``, ``log p(start) + log p(end | start)``, at least NEVER.
    """

    starts: tf.Tensor
    ends: tf.Tensor
    scores: tf.Tensor


class AnswerHead(tf.Module):
    """Logits of starts, ends and of no answer, from the states h of a text's tokens.

        start_i = w_s . h_i
        end_i | start j = w_e . norm(tanh(W_1 h_i + W_2 h_j + b))
        no answer = w_n . tanh(V [h_CLS, sum_i p(start_i) h_i] + c)

    Positions that no answer can have get the logit NEVER.

    Args:
        has_impossible: whether some questions have no answer.

    References:
        The joint head of Yang et al., XLNet, https://arxiv.org/abs/1906.08237, as ELECTRA's published program has it:
        it takes the expected state of the start, also in training, where that of the true start would tell whether
        there is an answer.
    """

    def __init__(self, weights: Weights, width: int, has_impossible: bool, deviation: float = DEVIATION) -> None:
        super().__init__()
        initial = partial(initial_kernel, deviation=deviation)
        end, impossible = weights.scope("end"), weights.scope("impossible")
        self.start = Dense(weights.scope("start"), width, 1, initial)
        self.end_token = Dense(end.scope("token"), width, width, initial)
        self.end_start = initial(end.scope("start"), "kernel", (width, width))
        self.end_norm = LayerNorm(end.scope("layer_norm"), width)
        self.end = Dense(end.scope("output"), width, 1, initial)
        self.has_impossible = has_impossible
        if has_impossible:
            self.impossible = Dense(impossible.scope("dense"), 2 * width, width, initial)
            self.impossible_output = Dense(impossible.scope("output"), width, 1, initial)

    def starts(self, states: tf.Tensor, blocked: tf.Tensor) -> tf.Tensor:
        """Logits of the starts.

        Args:
            states: ``[B, L, width]``.
            blocked: bool ``[B, L]``, positions that no answer can have.

        Returns:
            float32 ``[B, L]``.
        """
        return tf.where(blocked, NEVER, self._logits(self.start, states))

    def ends(self, states: tf.Tensor, blocked: tf.Tensor, starts: tf.Tensor) -> tf.Tensor:
        """Logits of the ends.

        Args:
            states: ``[B, L, width]``.
            blocked: as for ``starts``.
            starts: positions, integers ``[B, K]``.

        Returns:
            float32 ``[B, K, L]``.
        """
        selection = tf.one_hot(starts, states.shape[1], dtype=states.dtype)
        of_start = tf.matmul(tf.matmul(selection, states), tf.cast(self.end_start, states.dtype))
        both = self.end_token(states)[:, tf.newaxis] + of_start[:, :, tf.newaxis]
        return tf.where(blocked[:, tf.newaxis], NEVER, self._logits(self.end, self.end_norm(tf.tanh(both))))

    def impossibles(self, states: tf.Tensor, starts: tf.Tensor) -> tf.Tensor:
        """Logits of having no answer.

        Args:
            states: ``[B, L, width]``.
            starts: the logits of ``starts``.

        Returns:
            float32 ``[B]``.
        """
        expected = tf.matmul(tf.cast(tf.nn.softmax(starts), states.dtype)[:, tf.newaxis], states)[:, 0]
        hidden = tf.tanh(self.impossible(tf.concat([states[:, 0], expected], 1)))
        return self._logits(self.impossible_output, hidden)

    def spans(self, states: tf.Tensor, blocked: tf.Tensor, starts: tf.Tensor, beam: int) -> Spans:
        """The ``beam`` likeliest starts, and the ``beam`` likeliest ends of each.

        Args:
            states: ``[B, L, width]``.
            blocked: as for ``starts``.
            starts: the logits of ``starts``.
            beam: at most L.
        """
        first, begins = tf.math.top_k(tf.nn.log_softmax(starts), beam)
        second, ends = tf.math.top_k(tf.nn.log_softmax(self.ends(states, blocked, begins)), beam)
        scores = tf.maximum(first[:, :, tf.newaxis] + second, NEVER)
        flat = [-1, beam * beam]
        return Spans(
            tf.reshape(tf.repeat(begins, beam, axis=1), flat), tf.reshape(ends, flat), tf.reshape(scores, flat)
        )

    @staticmethod
    def _logits(layer: Dense, x: tf.Tensor) -> tf.Tensor:
        return tf.squeeze(layer(tf.cast(x, tf.float32)), -1)
