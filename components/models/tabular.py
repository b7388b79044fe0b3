"""The channels of a tabular model: ids, lists of ids and numbers."""

from __future__ import annotations

from dataclasses import dataclass

from components.errors import KfrecError
from components.feature_spec import Channel, Feature, FeatureSpec
from components.feature_spec.spec import FILENAME


@dataclass(frozen=True)
class TabularChannels:
    """The channels of a specification, not all of them empty.

    Attributes:
        categorical: one id per sample, 0 for a missing or rare value.
        multihot: a list of ids per sample, padded with 0.
        numerical: one float per sample.
    """

    categorical: tuple[Feature, ...]
    multihot: tuple[Feature, ...]
    numerical: tuple[Feature, ...]

    @property
    def serving_features(self) -> tuple[str, ...]:
        """Names of the features that scoring needs."""
        return tuple(feature.name for feature in (*self.categorical, *self.multihot, *self.numerical))


def read_tabular(spec: FeatureSpec) -> TabularChannels:
    """Reads the tabular channels of a specification.

    Raises:
        KfrecError: there is no feature, or a feature is invalid in its channel.
    """
    path = spec.folder / FILENAME
    names = (Channel.CATEGORICAL, Channel.MULTIHOT, Channel.NUMERICAL)
    categorical, multihot, numerical = (spec.channel(name) if name in spec.channels else () for name in names)
    if not (categorical or multihot or numerical):
        raise KfrecError(f"{path}: no feature in the channels {', '.join(names)}; name those that the model reads")
    for feature in (*categorical, *multihot):
        if feature.cardinality is None:
            raise KfrecError(f"{path}: feature {feature.name} has no cardinality; give its largest id")
    for feature in (*categorical, *numerical):
        if feature.length is not None:
            raise KfrecError(
                f"{path}: feature {feature.name} has dimensions [{feature.length}]; remove them, or move it to the "
                f"channel {Channel.MULTIHOT}"
            )
    for feature in multihot:
        if feature.length is None:
            raise KfrecError(f"{path}: feature {feature.name} has no dimensions; give the longest list, such as [3]")
    for feature in numerical:
        if not feature.is_float:
            raise KfrecError(f"{path}: feature {feature.name} has dtype {feature.dtype}; channel numerical has float32")
    return TabularChannels(categorical, multihot, numerical)
