"""The channels of a tabular model: ids, lists of ids, numbers and their quantiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import tensorflow as tf

from components.contract import LOGIT, PIECES, only_label
from components.errors import KfrecError
from components.feature_spec import Channel, Feature, FeatureSpec
from components.feature_spec.spec import FILENAME
from components.models.layers.embedding_tables import EmbeddingTables, Initial, uniform_by_rows
from components.models.layers.weights import Weights
from components.models.loss import CROSS_ENTROPY, LossTerm, cross_entropy, embedding_penalty


@dataclass(frozen=True)
class TabularChannels:
    """The channels of a specification, not all of them empty.

    Attributes:
        categorical: one id per sample, 0 for a missing or rare value.
        multihot: a list of ids per sample, padded with 0.
        numerical: one float per sample.
        quantile: one float per sample, from 0 to 1.
    """

    categorical: tuple[Feature, ...]
    multihot: tuple[Feature, ...]
    numerical: tuple[Feature, ...]
    quantile: tuple[Feature, ...] = ()

    @property
    def serving_features(self) -> tuple[str, ...]:
        """Names of the features that scoring needs."""
        features = (*self.categorical, *self.multihot, *self.numerical, *self.quantile)
        return tuple(feature.name for feature in features)

    @property
    def numbers(self) -> int:
        """Width of ``stacked``."""
        return len(self.numerical) + PIECES * len(self.quantile)

    def stacked(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """The numbers and the pieces of the quantiles of a batch, float32 ``[B, numbers]``, which may be 0 wide."""
        rows = tf.shape(features[self.serving_features[0]])[0]
        parts = [features[feature.name][:, tf.newaxis] for feature in self.numerical]
        if self.quantile:
            parts.append(piecewise_linear(tf.stack([features[feature.name] for feature in self.quantile], 1)))
        return tf.concat(parts, 1) if parts else tf.zeros([rows, 0])


def read_tabular(spec: FeatureSpec) -> TabularChannels:
    """Reads the tabular channels of a specification.

    Raises:
        KfrecError: there is no feature, a feature is invalid in its channel, or the label is a number.
    """
    path = spec.folder / FILENAME
    names = (Channel.CATEGORICAL, Channel.MULTIHOT, Channel.NUMERICAL, Channel.QUANTILE)
    categorical, multihot, numerical, quantile = (spec.channel(name) if name in spec.channels else () for name in names)
    if not (categorical or multihot or numerical or quantile):
        raise KfrecError(f"{path}: no feature in the channels {', '.join(names)}; name those that the model reads")
    for target in spec.targets:
        if target.is_float:
            raise KfrecError(
                f"{path}: label {target.name} has dtype {target.dtype}, and the model learns 0 or 1; state above, "
                "below, equals or in under label of the schema, or give the dtype bool; a model of a package may learn "
                "numbers"
            )
    for feature in (*categorical, *multihot):
        if feature.cardinality is None:
            raise KfrecError(f"{path}: feature {feature.name} has no cardinality; give its largest id")
    for feature in (*categorical, *numerical, *quantile):
        if feature.length is not None:
            raise KfrecError(
                f"{path}: feature {feature.name} has dimensions [{feature.length}]; remove them, or move it to the "
                f"channel {Channel.MULTIHOT}"
            )
    for feature in multihot:
        if feature.length is None:
            raise KfrecError(f"{path}: feature {feature.name} has no dimensions; give the longest list, such as [3]")
    for feature in (*numerical, *quantile):
        if not feature.is_float:
            channel = Channel.NUMERICAL if feature in numerical else Channel.QUANTILE
            raise KfrecError(f"{path}: feature {feature.name} has dtype {feature.dtype}; channel {channel} has float32")
    return TabularChannels(categorical, multihot, numerical, quantile)


class TabularModel(tf.Module):
    """A model of clicks whose embeddings all have one width; a subclass computes the logits.

    Args:
        penalty: weight of the embeddings' penalty.
        amp: whether the embeddings are float16; tables, logits and losses stay float32.
        initial: creates the variables of the tables.
    """

    def __init__(
        self,
        weights: Weights,
        spec: FeatureSpec,
        width: int,
        penalty: float,
        amp: bool,
        initial: Initial = uniform_by_rows,
    ) -> None:
        super().__init__()
        self._channels = read_tabular(spec)
        self.serving_features = self._channels.serving_features
        self._penalty, self._dtype = penalty, tf.float16 if amp else tf.float32
        embedded = (*self._channels.categorical, *self._channels.multihot)
        widths = [width] * len(embedded)
        self.embed = EmbeddingTables(weights.scope("embedding"), embedded, widths, initial, self._dtype)
        self.tables = self.embed.tables

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        return {LOGIT: self._logits(features, self.embed(features), training)}

    def loss_terms(
        self,
        features: Mapping[str, tf.Tensor],
        targets: Mapping[str, tf.Tensor],
        mask: tf.Tensor,
        training: bool = True,
    ) -> tuple[dict[str, tf.Tensor], dict[str, LossTerm]]:
        embedded = self.embed(features)
        logits = self._logits(features, embedded, training)
        return {LOGIT: logits}, {
            CROSS_ENTROPY: cross_entropy(only_label(targets), logits),
            **embedding_penalty(embedded, self._penalty),
        }

    def _logits(self, features: Mapping[str, tf.Tensor], embedded: list[tf.Tensor], training: bool) -> tf.Tensor:
        """The logits of a batch, float32 ``[B]``."""
        raise NotImplementedError


def piecewise_linear(quantiles: tf.Tensor) -> tf.Tensor:
    """``min(max(32 q - t, 0), 1)`` for t = 0 ... 31 and each quantile q.

    A linear function of the pieces is a piecewise linear function of q, whose steps are as narrow as a 32nd of the
    training rows, however long the tails of the numbers are.

    Args:
        quantiles: float ``[B, F]``, from 0 to 1.

    Returns:
        ``[B, 32 F]``, in the dtype of the quantiles.

    Examples:
        >>> piecewise_linear(tf.constant([[1.5 / 32]]))[0, :3].numpy()
        array([1. , 0.5, 0. ], dtype=float32)

    References:
        Gorishniy et al., On Embeddings for Numerical Features in Tabular Deep Learning,
        https://arxiv.org/abs/2203.05556
    """
    pieces = tf.range(PIECES, dtype=quantiles.dtype)
    encoded = tf.clip_by_value(PIECES * quantiles[..., tf.newaxis] - pieces, 0, 1)
    return tf.reshape(encoded, [-1, PIECES * quantiles.shape[1]])
