"""How often the target's properties occur in the history."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from components.models.channels import SequenceChannels

# In items: the newest item alone, a session, a phase, and the whole history.
HALF_LIVES = (0.25, 1.0, 3.0, 10.0, 100.0)


class Repetition(tf.Module):
    """Logarithms of recency-weighted counts of the target's ids among the history's.

        ln(1 + sum_l 2^(-age_l / h) [history_fl = target_f])

    for each property f of an item, such as its id and its category, and each half-life h; age_l counts items back from
    the newest one, 0. A network must learn from the data that equal embeddings are equal ids, and a softmax over the
    history forgets how many there are.

    Args:
        channels: the features to read.

    Attributes:
        width: number of counts.

    Examples:
        The target's category occurs in the two newest items of a history and nowhere else: ``ln(2 + 2^(-1 / h))`` for
        each half-life h.
    """

    def __init__(self, channels: SequenceChannels) -> None:
        super().__init__()
        self._pairs = [
            (target.name, history.name) for target, history in zip(channels.target, channels.positive, strict=True)
        ]
        self._length = channels.length
        self.width = len(self._pairs) * len(HALF_LIVES)

    def __call__(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Counts for a batch of ids, ``[B]`` and ``[B, length]``; returns float32 ``[B, width]``."""
        ages = tf.range(self._length - 1, -1, -1, tf.float32)
        decays = tf.stack([tf.pow(0.5, ages / half_life) for half_life in HALF_LIVES], 1)
        is_item = features[self._pairs[0][1]] > 0
        counts = [
            tf.cast((features[history] == features[target][:, tf.newaxis]) & is_item, tf.float32) @ decays
            for target, history in self._pairs
        ]
        return tf.math.log1p(tf.concat(counts, 1))
