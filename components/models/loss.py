"""Losses as sums and counts, so that the loss does not depend on the number of ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import tensorflow as tf

# Names of a term of the cross-entropy and of the penalty of the embeddings.
CROSS_ENTROPY, PENALTY = "cross_entropy", "embedding_l2"


class LossTerm(NamedTuple):
    """One term of a loss on one rank's share of a batch, per sample.

    The loss of the global batch is ``sum_t weight_t * total_t / count_t``, with totals and counts summed over the
    samples of all ranks.

    Attributes:
        total: float32 ``[B]``, sum of each sample's losses.
        count: float32 ``[B]``, number of losses in each sum; may be 0.
        part: name under which the term is logged, together with others of that name; empty is the term's own name.
    """

    total: tf.Tensor
    count: tf.Tensor
    weight: float
    part: str = ""


def loss_of(terms: Iterable[LossTerm]) -> tf.Tensor:
    """The loss of a single process: ``sum_t weight_t * total_t / count_t``; a term with count 0 is 0."""
    import tensorflow as tf

    return tf.add_n([term.weight * tf.math.divide_no_nan(sum_of(term.total), sum_of(term.count)) for term in terms])


def sum_of(values: tf.Tensor, weights: tf.Tensor | None = None) -> tf.Tensor:
    """The sum of the totals or the counts of a term.

    Args:
        values: float32 ``[B]``.
        weights: how much each sample counts, float32 ``[B]``, 0 for padding samples; None for all alike.
    """
    import tensorflow as tf

    return tf.reduce_sum(values if weights is None else values * weights)


def cross_entropy(labels: tf.Tensor, logits: tf.Tensor, weight: float = 1.0, part: str = "") -> LossTerm:
    """Binary cross-entropy: ``-y log(sigmoid(x)) - (1 - y) log(1 - sigmoid(x))``.

    Args:
        labels: ``[B]``, 0 or 1.
        logits: float32 ``[B]``.
        part: see ``LossTerm``.
    """
    import tensorflow as tf

    labels = tf.cast(labels, tf.float32)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    # The count depends only on the labels, so its reduction overlaps the forward pass.
    return LossTerm(losses, tf.ones_like(labels), weight, part)


def embedding_penalty(embedded: Sequence[tf.Tensor], weight: float) -> dict[str, LossTerm]:
    """The L2 penalty of a batch's embeddings: ``weight`` times the sum of a sample's squares, averaged over samples.

    As the activity regularisation of a Keras ``Embedding``, it acts on the rows that a batch looks up, each as often as
    it occurs, so that its gradient is sparse and its strength does not depend on the batch size or the number of ranks.

    Args:
        embedded: float ``[B, width]`` of each feature.
        weight: of the penalty; with 0 there is no term.

    Returns:
        The terms by name, none or one.
    """
    import tensorflow as tf

    if not weight or not embedded:
        return {}
    total = tf.add_n([tf.reduce_sum(tf.square(tf.cast(each, tf.float32)), 1) for each in embedded])
    return {PENALTY: LossTerm(total, tf.ones_like(total), weight)}


def next_item_loss(
    clicked: tf.Tensor,
    unclicked: tf.Tensor,
    mask: tf.Tensor,
    weight: float = 1.0,
    padding: bool = False,
    part: str = "",
) -> LossTerm:
    """DIEN's auxiliary loss: the mean of two log losses over the positions that have a next item.

    ``(-log(sigmoid(clicked)) - log(1 - sigmoid(unclicked))) / 2``

    Args:
        clicked: float32 ``[..., B]``, logits of the next items.
        unclicked: float32 ``[..., B]``, logits of the sampled negatives.
        mask: bool ``[..., B]``, false where the next item is padding.
        padding: divide by all positions, padding included; with a weight of 2 this is the public SIM's loss.
        part: see ``LossTerm``.
    """
    import tensorflow as tf

    positions = list(range(len(mask.shape) - 1))
    has_next = tf.cast(mask, tf.float32)
    losses = (tf.nn.softplus(-clicked) + tf.nn.softplus(unclicked)) * (0.5 * has_next)
    count = tf.reduce_sum(tf.ones_like(has_next) if padding else has_next, positions)
    return LossTerm(tf.reduce_sum(losses, positions), count, weight, part)
