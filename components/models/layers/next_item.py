"""The network of DIEN's auxiliary loss, which predicts the next item."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import tensorflow as tf

from components.models.layers.dense import Dense
from components.models.layers.weights import Weights
from components.models.loss import LossTerm, next_item_loss
from components.models.ops.pairs import score_pairs


class NextItemNetwork(tf.Module):
    """An MLP with sigmoids over ``[state t, item t+1]``, for the next item and for a sampled negative.

    The first layer is linear in its two parts, so the state's share is computed once for both items.

    Args:
        state: width of a state.
        item: width of an item's embedding.
        hidden: widths of the hidden layers, such as (100, 50).
        weight, padding, part: of the loss, see ``components.models.loss.next_item_loss``.

    References:
        Zhou et al., Deep Interest Evolution Network, https://arxiv.org/abs/1809.03672
    """

    def __init__(
        self,
        weights: Weights,
        state: int,
        item: int,
        hidden: Sequence[int],
        weight: float = 1.0,
        padding: bool = False,
        part: str = "",
    ) -> None:
        super().__init__()
        self._loss = partial(next_item_loss, weight=weight, padding=padding, part=part)
        self._state = state
        self.kernel = weights.glorot("first/kernel", (state + item, hidden[0]))
        self.bias = weights.constant("first/bias", (hidden[0],))
        widths = (*hidden, 1)
        self.rest = [Dense(weights.scope(f"layer_{i}"), n, m) for i, (n, m) in enumerate(pairwise(widths))]

    def __call__(self, states: tf.Tensor, candidates: tf.Tensor) -> tf.Tensor:
        """Scores candidates for the item after each state.

        Args:
            states: ``[T or more, B, state]``.
            candidates: ``[N, T, B, item]``, N candidates for the step after each state.

        Returns:
            Logits, float32 ``[N, T, B]``.
        """
        of_state, of_item = self.kernel[: self._state], self.kernel[self._state :]
        layers = [weights for layer in self.rest for weights in (layer.kernel, layer.bias)]
        return score_pairs(states, candidates, self.bias, of_state, of_item, *layers)

    def loss(self, states: tf.Tensor, candidates: tf.Tensor, mask: tf.Tensor) -> LossTerm:
        """The auxiliary loss of a short history.

        Args:
            states: ``[S, B, state]``, after each of S items.
            candidates: ``[2, S - 1, B, item]``: from the second position on, the actual item and a sampled negative.
            mask: bool ``[B, S]``, false at padding.
        """
        following = tf.transpose(mask)[1:]
        if states.shape[0] < 2:
            none = tf.zeros_like(following, tf.float32)
            return self._loss(none, none, following)
        clicked, unclicked = tf.unstack(self(states, candidates))
        return self._loss(clicked, unclicked, following)
