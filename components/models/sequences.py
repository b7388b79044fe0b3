"""What the definitions of SIM, DIN and DIEN share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from components.errors import KfrecError
from components.feature_spec import Channel, FeatureSpec, ListLength

_STATES = {"sgd": 0}


class TrainedTables(Protocol):
    """What the memory of the embedding tables depends on, of the parameters of the train step and a model."""

    @property
    def embedding_dim(self) -> int: ...

    @property
    def optimizer(self) -> str: ...

    @property
    def average_decay(self) -> float: ...


class DividedHistory(Protocol):
    """Parameters of a model that divides a history into a long and a short one."""

    @property
    def long_seq_length(self) -> int: ...


def training_bytes(parameters: TrainedTables, spec: FeatureSpec) -> int:
    """Memory of the embedding tables, the moments of their optimizer and the averages, in bytes."""
    named = {name for channel in (Channel.USER, Channel.TARGET) for name in spec.channels.get(channel, ())}
    rows = sum((spec.features[name].cardinality or 0) + 1 for name in named)
    copies = 1 + _STATES.get(parameters.optimizer, 2) + (parameters.average_decay > 0)
    return 4 * rows * parameters.embedding_dim * copies


def check_histories(parameters: DividedHistory, lengths: Mapping[str, ListLength]) -> None:
    """Checks that something is left for the short history, and that the negative history covers it.

    Raises:
        KfrecError: it does not; :func:`components.models.channels.short_length` checks the records in the same way.
    """
    if Channel.POSITIVE not in lengths or Channel.NEGATIVE not in lengths:
        return
    long, positive, negative = parameters.long_seq_length, lengths[Channel.POSITIVE], lengths[Channel.NEGATIVE]
    short = positive.values - long
    if short < 1:
        raise KfrecError(
            f"parameter long_seq_length={long} leaves no short history of {positive.parameter}={positive.values}; "
            f"choose at most {positive.values - 1}"
        )
    if negative.values < short:
        raise KfrecError(
            f"parameter {negative.parameter}={negative.values} is below the short history of {short} items "
            f"({positive.parameter}={positive.values} less long_seq_length={long}); raise it, or raise long_seq_length"
        )
