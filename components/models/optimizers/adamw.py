"""AdamW: Adam whose weight decay follows the learning rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from components.models.ops.rows import AdamStep, Update, adam_all
from components.models.optimizers.adam import BETA_1, BETA_2, Adam
from components.models.optimizers.schedules import Rate

# Parts of the names of biases and of the weights of normalisations, which by custom do not decay.
UNDECAYED = ("bias", "gamma", "beta", "layer_norm")
# A variable's share of the learning rate.
Factor = Callable[[tf.Variable], float]


def is_named(variable: tf.Variable, parts: Sequence[str]) -> bool:
    """Whether a variable's name contains one of these parts."""
    return any(part in variable.name for part in parts)


class AdamW(Adam):
    """Adam with decoupled weight decay, both by the learning rate.

        m = b1 m + (1 - b1) g
        v = b2 v + (1 - b2) g²
        w = w - factor * lr * (decay * w + sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + epsilon))

    Rows missing from a sparse gradient have gradient 0, so every step updates every row. Table shards are updated like
    whole tables.

    Args:
        learning_rate: lr, a number or a schedule.
        beta_1, beta_2: b1 and b2, decay rates of the moments.
        epsilon: added to the root of the second moment.
        excluded: parts of names; variables with one of them in their names do not decay.
        factor: each variable's share of the learning rate, such as 0.8 ** depth for a decay by layer; None is 1.

    Examples:
        >>> optimizer = AdamW(learning_rate=0.1, weight_decay=0.5)
        >>> kernel, bias = tf.Variable([1.0], name="kernel"), tf.Variable([1.0], name="bias")
        >>> optimizer.apply([(tf.zeros([1]), kernel), (tf.zeros([1]), bias)])
        >>> kernel.numpy(), bias.numpy()
        (array([0.95], dtype=float32), array([1.], dtype=float32))

    References:
        Loshchilov and Hutter, Decoupled Weight Decay Regularization, https://arxiv.org/abs/1711.05101; the place of
        epsilon is that of Keras. Decay by layer: Howard and Ruder, https://arxiv.org/abs/1801.06146
    """

    def __init__(
        self,
        learning_rate: Rate,
        weight_decay: float = 0.01,
        beta_1: float = BETA_1,
        beta_2: float = BETA_2,
        epsilon: float = 1e-6,
        excluded: Sequence[str] = UNDECAYED,
        factor: Factor | None = None,
    ) -> None:
        super().__init__(learning_rate, 0.0, "adamw", beta_1, beta_2, epsilon)
        self._decay, self._excluded, self._factor = weight_decay, tuple(excluded), factor

    def _update_all(self, updates: Sequence[Update], by: AdamStep) -> None:
        # Variables of equal factor and decay are updated together.
        groups: dict[tuple[float, float], list[Update]] = {}
        for update in updates:
            variable = update[1]
            decay = 0.0 if is_named(variable, self._excluded) else self._decay
            groups.setdefault((self._factor(variable) if self._factor else 1.0, decay), []).append(update)
        for (factor, decay), group in groups.items():
            rate = by.rate * factor
            adam_all(group, by._replace(rate=rate, keep_weights=1.0 - rate * decay if decay else 1.0))
