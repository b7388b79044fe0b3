"""The common part of SIM and DIEN: interest extraction and evolution, and the auxiliary loss of the next item."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import tensorflow as tf

from components.feature_spec import FeatureSpec
from components.models.channels import read_channels, short_length
from components.models.inputs import SequenceInputs
from components.models.layers.activation_unit import ActivationUnit
from components.models.layers.dense import Dense, PReLU, rectified_layers
from components.models.layers.recurrence import GatedRecurrence
from components.models.layers.weights import Weights
from components.models.loss import LossTerm, next_item_loss
from components.models.ops.attention import masked_softmax
from components.models.ops.dense import score_pairs
from components.models.parameters import EvolutionParameters

# Units per float of a feature's embedding, as in the authors' code.
UNITS_PER_EMBEDDING = 6


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


class InterestEvolution(tf.Module):
    """GRU over the history, attention of its states to the target, AUGRU over the states.

    Args:
        inputs: width of an item and of the target.
        units: width of the states.

    References:
        Zhou et al., Deep Interest Evolution Network, https://arxiv.org/abs/1809.03672
    """

    def __init__(self, weights: Weights, inputs: int, units: int) -> None:
        super().__init__()
        self.extraction = GatedRecurrence(weights.scope("extraction"), inputs, units)
        self.target = Dense(weights.scope("target"), inputs, units)
        self.target_activation = PReLU(weights.scope("target"), units)
        self.attention = ActivationUnit(weights.scope("attention"), units)
        self.evolution = GatedRecurrence(weights.scope("evolution"), units, units, gate_bias=1.0)

    def __call__(self, items: tf.Tensor, mask: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes the user's interest with respect to the target.

        Args:
            items: ``[T, B, inputs]``, time-major, oldest first.
            mask: bool ``[B, T]``, false at padding.
            target: ``[B, inputs]``.

        Returns:
            The last state of the AUGRU, ``[B, units]``, and the state of the GRU after each step, ``[T, B, units]``.
        """
        present = tf.cast(tf.transpose(mask), items.dtype)
        states = self.extraction.states(items * present[..., tf.newaxis])
        wanted = rectified_layers(target, [(self.target, self.target_activation)])
        attention = masked_softmax(tf.transpose(self.attention(states, wanted)), mask)
        return self.evolution.last_state(states, tf.transpose(attention)), states


# Name of the term of the next item, and the names under which the public SIM logs the parts of its loss.
AUXILIARY = "auxiliary"
CLASSIFICATION, NEXT_ITEM = "classification_loss", "dien_aux_loss"


class EvolutionModel(tf.Module):
    """Embeds users, items and histories, and has DIEN's interest evolution and auxiliary loss; no classifier.

    Args:
        amp: whether to compute in float16; weights, softmaxes, logits and losses stay float32.
    """

    def __init__(self, parameters: EvolutionParameters, spec: FeatureSpec, weights: Weights, amp: bool) -> None:
        super().__init__()
        self.channels = read_channels(spec, negatives=True)
        self.serving_features = self.channels.serving_features
        self.target_features = tuple(feature.name for feature in self.channels.target)
        self.short_length = short_length(spec, self.channels, parameters.long_seq_length)
        self.inputs = SequenceInputs(
            weights,
            self.channels,
            short_length=self.short_length,
            embedding_dim=parameters.embedding_dim,
            dtype=tf.float16 if amp else tf.float32,
            repetition=parameters.repetition,
            user_dropout=parameters.user_dropout,
        )
        self.tables = self.inputs.tables
        self.units = UNITS_PER_EMBEDDING * parameters.embedding_dim
        self.evolution = InterestEvolution(weights.scope("evolution"), self.inputs.item_width, self.units)
        self.next_item = NextItemNetwork(
            weights.scope("next_item"),
            self.units,
            self.inputs.item_width,
            parameters.aux_mlp_dims,
            parameters.aux_loss_weight,
            parameters.aux_loss_padding,
            NEXT_ITEM,
        )
