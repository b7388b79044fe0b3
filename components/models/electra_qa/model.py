"""ELECTRA's encoder with a head: where an answer starts, where it ends given its start, and whether there is one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import tensorflow as tf

from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.feature_spec.spec import FILENAME
from components.models.electra_qa import ElectraQaParameters
from components.models.encoder import read_text
from components.models.layers.dense import Dense
from components.models.layers.layer_norm import LayerNorm
from components.models.layers.token_embeddings import TokenEmbeddings
from components.models.layers.transformer import DEVIATION, Encoder, initial_kernel
from components.models.layers.weights import Weights
from components.models.loss import LossTerm
from components.models.model import Table
from components.text.outputs import IMPOSSIBLE, SPAN_ENDS, SPAN_SCORES, SPAN_STARTS

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


# The channel of the positions that no answer can have, and the targets.
BLOCKED = "p_mask"
START, END, HAS_NONE = "start_position", "end_position", "is_impossible"
# Of data whose questions all have an answer.
_POSSIBLE = -1e4

# Of the loss of whether a question has an answer.
_IMPOSSIBLE_WEIGHT = 0.5


class ElectraQa(tf.Module):
    """The encoder of ``components.models.electra`` over [CLS] question [SEP] context [SEP], and ``AnswerHead``.

        loss = (-log p(start) - log p(end | start)) / 2 + 0.5 * cross-entropy of having no answer

    The last term is that of data with questions that have no answer. The answer of a window that does not hold it is
    [CLS], the first position.

    Args:
        parameters: its sizes, those of the pre-trained model whose weights it starts from.
        spec: with the channels ``tokens``, ``p_mask`` and ``label``.
        amp: whether to compute in float16; weights, normalisations, softmaxes, logits and losses are float32.
    """

    def __init__(self, parameters: ElectraQaParameters, spec: FeatureSpec, seed: int, amp: bool = False) -> None:
        super().__init__()
        weights = Weights(seed)
        channels = read_text(spec, parameters)
        (blocked, *_) = spec.channel(BLOCKED) or (None,)
        if blocked is None or blocked.length != channels.length:
            raise KfrecError(
                f"{spec.folder / FILENAME}: channel {BLOCKED} has no feature of the length {channels.length}; prepare "
                "questions with a data set such as squad"
            )
        missing = {START, END, HAS_NONE} - {target.name for target in spec.targets}
        if missing:
            raise KfrecError(
                f"{spec.folder / FILENAME}: channel label lacks {', '.join(sorted(missing))}; prepare questions with a "
                "data set such as squad"
            )
        self.serving_features = (channels.tokens.name, channels.segments.name, blocked.name)
        self._beam = min(parameters.beam, channels.length)
        sizes, width = parameters.sizes, parameters.embedding_width
        self.embed = TokenEmbeddings(
            weights.scope("embeddings"),
            channels.vocabulary,
            parameters.positions,
            width,
            sizes.dropout,
            tf.float16 if amp else tf.float32,
            sizes.deviation,
        )
        self.tables = {channels.tokens.name: Table(self.embed.words, 0, channels.vocabulary)}
        self.encoder = Encoder(weights.scope("encoder"), width, sizes)
        encoding = spec.metadata.get("encoding") or {}
        self.head = AnswerHead(weights.scope("answer"), sizes.width, bool(encoding.get("version_2")), sizes.deviation)

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        """See ``components.models.model.Model``.

        Returns:
            SPAN_STARTS, SPAN_ENDS: int32 ``[B, N]``, positions of the N likeliest spans, both inclusive; SPAN_SCORES:
            float32 ``[B, N]``, the sums of the log-probabilities of start and end; IMPOSSIBLE: float32 ``[B]``, the
            logit that the text has no answer.
        """
        states, blocked = self._states(features, training)
        starts = self.head.starts(states, blocked)
        spans = self.head.spans(states, blocked, starts, self._beam)
        if self.head.has_impossible:
            impossible = self.head.impossibles(states, starts)
        else:
            impossible = tf.fill(tf.shape(starts)[:1], _POSSIBLE)
        return {
            SPAN_STARTS: spans.starts,
            SPAN_ENDS: spans.ends,
            SPAN_SCORES: spans.scores,
            IMPOSSIBLE: impossible,
        }

    def loss_terms(
        self,
        features: Mapping[str, tf.Tensor],
        targets: Mapping[str, tf.Tensor],
        mask: tf.Tensor,
        training: bool = True,
    ) -> tuple[dict[str, tf.Tensor], dict[str, LossTerm]]:
        """See ``components.models.model.Model``; of the outputs, only ``start_logits`` are computed, ``[B, L]``."""
        states, blocked = self._states(features, training)
        starts = self.head.starts(states, blocked)
        ends = self.head.ends(states, blocked, targets[START][:, tf.newaxis])[:, 0]
        each = tf.ones_like(mask, tf.float32)
        terms = {
            "start": LossTerm(_losses(targets[START], starts), each, 0.5),
            "end": LossTerm(_losses(targets[END], ends), each, 0.5),
        }
        if self.head.has_impossible:
            logits = self.head.impossibles(states, starts)
            losses = tf.nn.sigmoid_cross_entropy_with_logits(targets[HAS_NONE], logits)
            terms["impossible"] = LossTerm(losses, each, _IMPOSSIBLE_WEIGHT)
        return {"start_logits": starts}, terms

    def _states(self, features: Mapping[str, tf.Tensor], training: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """The states of the tokens, and the positions that no answer can have."""
        tokens, segments, blocked = (features[name] for name in self.serving_features)
        return self.encoder(self.embed(tokens, segments, training), tokens > 0, training), blocked > 0


def _losses(positions: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.nn.sparse_softmax_cross_entropy_with_logits(positions, logits)
