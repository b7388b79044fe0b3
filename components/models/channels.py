"""The channels of a sequential model: users, target items and their histories."""

from __future__ import annotations

from dataclasses import dataclass

from components.errors import KfrecError
from components.feature_spec import Channel, Feature, FeatureSpec
from components.feature_spec.spec import FILENAME


@dataclass(frozen=True)
class SequenceChannels:
    """The validated channels of a specification.

    The i-th feature of the target, the positive history and the negative history describe the same property of an item
    and share one embedding table.

    Attributes:
        positive: features of the items the user chose, left-padded with 0, oldest first.
        negative: features of items the user did not choose, aligned with the newest positive ones; may be empty.
        unknown_user: the ids of an unknown user, one for each feature; 0 without a vocabulary.
        events: what is told of the events of the positive history; may be empty.
        context: what is told of the target's event; may be empty.
    """

    user: tuple[Feature, ...]
    target: tuple[Feature, ...]
    positive: tuple[Feature, ...]
    negative: tuple[Feature, ...]
    length: int
    unknown_user: tuple[int, ...]
    events: tuple[Feature, ...] = ()
    context: tuple[Feature, ...] = ()

    @property
    def serving_features(self) -> tuple[str, ...]:
        """Names of the features that scoring needs."""
        read = (*self.user, *self.target, *self.positive, *self.events, *self.context)
        return tuple(feature.name for feature in read)

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """The largest id of every embedding table: first the item features, then the user features."""
        return tuple(feature.cardinality or 0 for feature in (*self.target, *self.user))


def read_channels(spec: FeatureSpec, *, negatives: bool) -> SequenceChannels:
    """Reads a model's channels from a specification.

    Args:
        negatives: whether the model learns from a negative history.

    Raises:
        KfrecError: the channels differ in the number, the lengths or the cardinalities of their features.
    """
    path = spec.folder / FILENAME
    user, target = (spec.channel(name) for name in (Channel.USER, Channel.TARGET))
    positive = spec.channel(Channel.POSITIVE)
    negative = spec.channel(Channel.NEGATIVE) if negatives else ()
    if not target:
        raise KfrecError(f"{path}: channel {Channel.TARGET} is empty; name at least one feature of the item")
    events, context = (
        spec.channel(name) if name in spec.channels else () for name in (Channel.EVENTS, Channel.CONTEXT)
    )
    for feature in (*user, *target, *positive, *negative, *events, *context):
        if feature.cardinality is None:
            raise KfrecError(f"{path}: feature {feature.name} has no cardinality; give its largest id")
    for name, features in ((Channel.POSITIVE, positive), (Channel.NEGATIVE, negative)):
        if features or name == Channel.POSITIVE or negatives:
            _check_pairs(f"{path}: channel {name}", features, target)
            _check_one_length(f"{path}: channel {name}", features, features[0])
    if events:
        _check_one_length(f"{path}: channel {Channel.EVENTS}", events, positive[0])
    for feature in (*user, *target, *context):
        if feature.length is not None:
            raise KfrecError(
                f"{path}: feature {feature.name} has dimensions [{feature.length}], but a user or target feature is "
                "one id; remove its dimensions or move it to a history channel"
            )
    vocabularies = [spec.vocabulary_of(feature.name) for feature in user]
    unknown = tuple(vocabulary.unknown if vocabulary else 0 for vocabulary in vocabularies)
    return SequenceChannels(user, target, positive, negative, positive[0].length or 0, unknown, events, context)


def _check_pairs(where: str, history: tuple[Feature, ...], target: tuple[Feature, ...]) -> None:
    """Checks that a history has the target's features, in number and cardinality."""
    if len(history) != len(target):
        raise KfrecError(
            f"{where} has {len(history)} features ({_names(history)}), but {Channel.TARGET} has {len(target)} "
            f"({_names(target)}); list the same item features in the same order"
        )
    for sequence, single in zip(history, target, strict=True):
        if sequence.cardinality != single.cardinality:
            raise KfrecError(
                f"{where}: {sequence.name} has cardinality {sequence.cardinality}, but {single.name} at the same place "
                f"in {Channel.TARGET} has {single.cardinality}; list the features in the same order"
            )


def _check_one_length(where: str, history: tuple[Feature, ...], first: Feature) -> None:
    for feature in history:
        if feature.length is None:
            raise KfrecError(f"{where}: {feature.name} has no dimensions; give the history's length, such as [100]")
        if feature.length != first.length:
            raise KfrecError(
                f"{where}: {feature.name} has length {feature.length}, but {first.name} has {first.length}; "
                "all features of a history need one length"
            )


def _names(features: tuple[Feature, ...]) -> str:
    return ", ".join(feature.name for feature in features) or "none"


def short_length(spec: FeatureSpec, channels: SequenceChannels, long_length: int) -> int:
    """Length of the short history, the newest items.

    Raises:
        KfrecError: the short history is empty, or longer than the negative history.
    """
    path = spec.folder / FILENAME
    short = channels.length - long_length
    if short < 1:
        raise KfrecError(
            f"parameter long_seq_length={long_length} leaves no short history: {channels.positive[0].name} in {path} "
            f"has length {channels.length}; choose at most {channels.length - 1}"
        )
    for feature in channels.negative:
        if (feature.length or 0) < short:
            raise KfrecError(
                f"{path}: {feature.name} has length {feature.length}, but the short history has {short} items "
                f"({channels.length} less long_seq_length={long_length}); store longer negative histories or raise "
                "long_seq_length"
            )
    return short
