"""Losses as sums, so that any number of ranks adds up to exactly the loss of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import tensorflow as tf

# Name of the term that a model learns from beside what it predicts.
AUXILIARY = "auxiliary"


class LossTerm(NamedTuple):
    """One term of a loss on one rank's part of a batch, sample by sample.

    The loss of the whole batch is ``sum_t weight_t * total_t / count_t``, with the totals and the counts of the samples
    of all ranks added up first.

    Attributes:
        total: float32 ``[B]``, of each sample the sum over what is counted.
        count: float32 ``[B]``, how many were summed; 0 where there was nothing.
        weight: the term's share of the loss.
    """

    total: tf.Tensor
    count: tf.Tensor
    weight: float


def part_of(term: str) -> str:
    """Which part of the loss a term is logged as, by the term's name; the public SIM's log has these two."""
    return "dien_aux_loss" if term == AUXILIARY else "classification_loss"


def loss_of(terms: Iterable[LossTerm]) -> tf.Tensor:
    """The loss where one process holds the whole batch: ``sum_t weight_t * total_t / count_t``, 0 for an empty term."""
    import tensorflow as tf

    return tf.add_n([term.weight * tf.math.divide_no_nan(sum_of(term.total), sum_of(term.count)) for term in terms])


def sum_of(values: tf.Tensor, counted: tf.Tensor | None = None) -> tf.Tensor:
    """The sum of the totals or the counts of a term.

    Args:
        values: float32 ``[B]``.
        counted: float32 ``[B]``, 0 for samples that only fill a batch up and 1 for all others; None counts all.

    Raises:
        ValueError: there is not one value a sample.
    """
    import tensorflow as tf

    if values.shape.rank != 1:
        raise ValueError(f"a term of the loss has the shape {values.shape}, but needs one value a sample")
    return tf.reduce_sum(values if counted is None else values * counted)


def cross_entropy(labels: tf.Tensor, logits: tf.Tensor, weight: float = 1.0) -> LossTerm:
    """Binary cross-entropy: ``-y log(sigmoid(x)) - (1 - y) log(1 - sigmoid(x))``.

    Args:
        labels: float32 ``[B]``, 0 or 1.
        logits: float32 ``[B]``.
        weight: the term's share of the loss.
    """
    import tensorflow as tf

    from components.models.ops.losses import log_loss

    # Counted from the labels, which are there when a step begins: the ranks add up their counts while they compute.
    return LossTerm(log_loss(labels, logits), tf.ones_like(labels, tf.float32), weight)


def next_item_loss(
    clicked: tf.Tensor, unclicked: tf.Tensor, mask: tf.Tensor, weight: float = 1.0, padding: bool = False
) -> LossTerm:
    """DIEN's auxiliary loss: the mean of two log losses over the positions that have a next item.

    ``(-log(sigmoid(clicked)) - log(1 - sigmoid(unclicked))) / 2``

    Args:
        clicked: float32 ``[..., B]``, logits of the items that came next.
        unclicked: float32 ``[..., B]``, logits of the sampled items that did not.
        mask: bool ``[..., B]``, where the next item is not padding.
        weight: the term's share of the loss.
        padding: count all positions, of which padding adds nothing to the sum; with a weight of 2 this is the public
            SIM's loss.
    """
    import tensorflow as tf

    from components.models.ops.losses import next_item_losses

    counted = tf.ones_like(mask, tf.float32) if padding else tf.cast(mask, tf.float32)
    count = tf.reduce_sum(counted, list(range(len(mask.shape) - 1)))
    return LossTerm(next_item_losses(clicked, unclicked, mask), count, weight)
