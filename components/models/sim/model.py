"""SIM, the Search-based Interest Model: search a long history for what fits the target, then look closely."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow as tf

from components.contract import LOGIT, only_label
from components.feature_spec import FeatureSpec
from components.models.evolution import AUXILIARY, CLASSIFICATION, EvolutionModel
from components.models.inputs import EmbeddedBatch
from components.models.layers.classifier import Classifier
from components.models.layers.weights import Weights
from components.models.loss import LossTerm, cross_entropy
from components.models.ops.attention import attend, dot_scores, masked_softmax, top_k_mask
from components.models.ops.choice import operation
from components.models.ops.rows import look_up
from components.models.sim import SimParameters
from components.models.sim.search import WEIGHTS


@operation()
def search(
    table: tf.Variable, rows: tf.Tensor, mask: tf.Tensor, target: tf.Tensor, k: int, added: tf.Tensor | None = None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Attention over a history, attention over the k items with the highest attention, and the mean of these.

    The found items are a mask over the history, so all three are weighted sums of the history, in one product. The mean
    is ``sum / (count + 1)``.

    Args:
        table: float32 ``[R, width]``, or this rank's part of it.
        rows: row indices of the F features of each item, integers ``[B, L, F]``.
        mask: bool ``[B, L]``, false at padding.
        target: ``[B, F * width]``.
        added: what to add to the items' embeddings, ``[B, L, F * width]``; None adds nothing.

    Returns:
        Three tensors ``[B, F * width]`` in the dtype of the target.

    References:
        Qi et al., Search-based User Interest Modeling, https://arxiv.org/abs/2006.05639
    """

    items = _items(table, rows, target, added)
    attention, best, mean = tf.unstack(attend(items, target, weighing(mask, k)), axis=1)
    return attention, best, mean


def _items(table: tf.Variable, rows: tf.Tensor, target: tf.Tensor, added: tf.Tensor | None) -> tf.Tensor:
    items = look_up(table, rows, target.dtype, has_padding=True)
    return items if added is None else items + added


def found_weights(
    table: tf.Variable, rows: tf.Tensor, mask: tf.Tensor, target: tf.Tensor, k: int, added: tf.Tensor | None = None
) -> tf.Tensor:
    """The items that ``search`` finds.

    Args:
        table: this and the other arguments are those of ``search``.

    Returns:
        float32 ``[B, L]``: for a found item its attention over the whole history, 0 for other items, -1 for padding.
    """
    items = _items(table, rows, target, added)
    attention = masked_softmax(dot_scores(items, target), mask)
    return tf.where(mask, tf.where(top_k_mask(attention, k), attention, 0.0), -1.0)


def weighing(mask: tf.Tensor, k: int) -> Callable[[tf.Tensor], tf.Tensor]:
    """Maps scores ``[B, L]`` to the weights of the three sums, float32 ``[B, 3, L]``."""

    def weigh(scores: tf.Tensor) -> tf.Tensor:
        attention = masked_softmax(scores, mask)
        best = top_k_mask(attention, k)
        ones = tf.cast(best, tf.float32)
        mean = ones / (tf.reduce_sum(ones, -1, keepdims=True) + 1.0)
        return tf.stack([attention, masked_softmax(scores, best), mean], 1)

    return weigh


# Items that the general search unit passes to the exact one.
FOUND_ITEMS = 50
STAGE_WEIGHT = 0.5


class _Forward(NamedTuple):
    stage_one_logits: tf.Tensor
    stage_two_logits: tf.Tensor
    states: tf.Tensor


class Sim(EvolutionModel):
    """General search over the long history, exact search over the found items, interest evolution over the short one.

    - Stage one: dot attention over the long history; classifier over [target, interest, user].
    - Stage two: dot attention over the 50 items with the highest attention in stage one, and their mean
      (sum / (count + 1)); DIEN's interest over the short history; classifier over
      [attention, mean, target, interest, user].
    - Loss: half the cross-entropy of each stage, plus DIEN's auxiliary loss times its weight. The prediction is that of
      stage two.

    Args:
        amp: whether to compute in float16; weights, softmaxes, logits and losses stay float32.

    References:
        Qi et al., Search-based User Interest Modeling, https://arxiv.org/abs/2006.05639
    """

    def __init__(self, parameters: SimParameters, spec: FeatureSpec, seed: int, amp: bool = False) -> None:
        weights = Weights(seed)
        super().__init__(parameters, spec, weights, amp)
        item, units, user = self.inputs.item_width, self.units, self.inputs.user_width
        self.stage_one = Classifier(
            weights.scope("stage_one"), 2 * item + user, parameters.stage_one_mlp_dims, parameters.dropout_rate
        )
        self.stage_two = Classifier(
            weights.scope("stage_two"),
            3 * item + units + user + self.inputs.repetition_width,
            parameters.stage_two_mlp_dims,
            parameters.dropout_rate,
        )

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        return {LOGIT: self._forward(self.inputs(features, training=training), training).stage_two_logits}

    def explain(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """What the search found.

        Returns:
            ``search``: float32 ``[B, length]``, per position of the positive history: the attention by which stage one
            found the item, above 0; 0 for an item not found; -1 for padding and items outside the searched part.
        """
        batch = self.inputs(features)
        found = found_weights(
            self.inputs.embedding.tables, batch.long, batch.long_mask, batch.target, FOUND_ITEMS, batch.long_events
        )
        trimmed = self.channels.length - self.short_length - tf.shape(found)[1]
        return {WEIGHTS: tf.pad(found, [[0, 0], [trimmed, self.short_length]], constant_values=-1.0)}

    def loss_terms(
        self,
        features: Mapping[str, tf.Tensor],
        targets: Mapping[str, tf.Tensor],
        mask: tf.Tensor,
        training: bool = True,
    ) -> tuple[dict[str, tf.Tensor], dict[str, LossTerm]]:
        batch = self.inputs(features, training=training, negatives=True)
        forward, labels = self._forward(batch, training), only_label(targets)
        return {LOGIT: forward.stage_two_logits}, {
            "stage_one": cross_entropy(labels, forward.stage_one_logits, STAGE_WEIGHT, CLASSIFICATION),
            "stage_two": cross_entropy(labels, forward.stage_two_logits, STAGE_WEIGHT, CLASSIFICATION),
            AUXILIARY: self.next_item.loss(forward.states, batch.candidates, batch.short_mask),
        }

    def _forward(self, batch: EmbeddedBatch, training: bool) -> _Forward:
        tables = self.inputs.embedding.tables
        searched, attended, mean = search(
            tables, batch.long, batch.long_mask, batch.target, FOUND_ITEMS, batch.long_events
        )
        stage_one = self.stage_one(tf.concat([batch.target, searched, batch.user], -1), training)
        interest, states = self.evolution(batch.short, batch.short_mask, batch.target)
        stage_two = self.stage_two(
            tf.concat([attended, mean, batch.target, interest, batch.user, *batch.repetition], -1), training
        )
        return _Forward(stage_one, stage_two, states)
