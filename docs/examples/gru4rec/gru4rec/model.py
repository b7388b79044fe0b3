"""GRU4Rec in TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from components.contract import LOG_LIKELIHOOD
from components.feature_spec import Channel, FeatureSpec
from components.models import LossTerm, Table
from components.models.layers.ranks import rank_targets
from components.models.layers.recurrence import GatedRecurrence
from components.models.layers.softmax import cross_entropy_of_rows
from components.models.layers.weights import Weights
from gru4rec import Gru4RecParameters


class Gru4Rec(tf.Module):
    """The state of a recurrence over the items of a history points at the next item.

        h_t = GRU(h_(t-1), e_(i_t))        p(j | i_1, ..., i_t) = softmax over the items j of h_t . e_j

    References:
        Hidasi et al., https://arxiv.org/abs/1511.06939, with the loss over all items.
    """

    def __init__(self, parameters: Gru4RecParameters, spec: FeatureSpec, seed: int, amp: bool = False) -> None:
        super().__init__()
        target, history = spec.channel(Channel.TARGET)[0], spec.channel(Channel.POSITIVE)[0]
        self._target, self._history = target.name, history.name
        self.serving_features = (history.name, target.name)
        # The rest of the serving features is the user's.
        self.target_inputs = (target.name,)
        vocabulary, rows = spec.vocabulary_of(target.name), target.cardinality + 1
        # Ids up to that of unknown items are none: the padding is 0.
        self._first = (vocabulary.unknown if vocabulary else 0) + 1
        weights = Weights(seed)
        self.items = weights.normal("items", (rows, parameters.gru_width), 0.02)
        self.recurrence = GatedRecurrence(weights.scope("gru"), parameters.gru_width, parameters.gru_width)
        # A warm start moves the rows of items to their ids in other data.
        self.tables = {target.name: Table(self.items, 0, rows)}

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        """What the task next_item reads: the target's rank among all items, and its log-likelihood."""
        target, history = self._known(features[self._target]), self._known(features[self._history])
        ranked = rank_targets(self.user_vectors(features), self.items, self._first, target, history)
        return {LOG_LIKELIHOOD: ranked.log_likelihood, "rank": ranked.rank}

    def loss_terms(
        self,
        features: Mapping[str, tf.Tensor],
        targets: Mapping[str, tf.Tensor],
        mask: tf.Tensor,
        training: bool = True,
    ) -> tuple[dict[str, tf.Tensor], dict[str, LossTerm]]:
        """The cross-entropy of each item of a history, given those before it, and of the target."""
        history, target = self._known(features[self._history]), self._known(features[self._target])
        following = tf.concat([history[:, 1:], target[:, tf.newaxis]], 1)
        places = tf.where(following >= self._first)
        states, wanted = tf.gather_nd(self._states(history), places), tf.gather_nd(following, places)
        items = tf.slice(self.items, [self._first, 0], [-1, -1])
        losses = cross_entropy_of_rows(states, items, wanted - self._first)
        total, count = (
            tf.math.unsorted_segment_sum(values, places[:, 0], tf.shape(target)[0])
            for values in (losses, tf.ones_like(losses))
        )
        return {LOG_LIKELIHOOD: -total}, {"next_item": LossTerm(total, count, 1.0)}

    def user_vectors(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """With ``target_vectors``, what ranks a catalogue in one product: their dot product is the score."""
        return self._states(self._known(features[self._history]))[:, -1]

    def target_vectors(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return tf.gather(self.items, self._known(features[self._target]))

    def _known(self, ids: tf.Tensor) -> tf.Tensor:
        """The ids, with 0 for those outside the table."""
        return tf.where((ids >= 0) & (ids < self.items.shape[0]), ids, tf.zeros_like(ids))

    def _states(self, history: tf.Tensor) -> tf.Tensor:
        """The state after each position of left-padded histories, float32 ``[B, L, width]``; padding embeds as 0."""
        embedded = tf.gather(self.items, history) * tf.cast(history > 0, tf.float32)[:, :, tf.newaxis]
        return tf.transpose(self.recurrence.states(tf.transpose(embedded, [1, 0, 2])), [1, 0, 2])
