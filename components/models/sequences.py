"""Shared parts of the definitions of SIM, DIN and DIEN."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from components.errors import KfrecError
from components.feature_spec import Channel, ListLength
from components.models.parameters import EvolutionParameters

# The published batch; the others are chosen on validation data. As published: three epochs, no dropout, neither counts
# nor unknown users.
OWN_DEFAULTS = {
    "global_batch_size": 131_072,
    "epochs": 6,
    "patience": 2,
    "dropout_rate": 0.4,
    "repetition": True,
    "user_dropout": 0.9,
}
# For the some hundred thousand samples that one machine trains on.
LOCAL_DEFAULTS = {"global_batch_size": 1024}

_trims = ContextVar("trims_histories", default=False)


@contextmanager
def trimmed_histories() -> Iterator[None]:
    """Functions traced within trim leading padding that all samples of a batch share from the long history.

    Its length is then dynamic, so XLA cannot compile them.
    """
    token = _trims.set(True)
    try:
        yield
    finally:
        _trims.reset(token)


def trims_histories() -> bool:
    """Whether the current trace is within ``trimmed_histories``."""
    return _trims.get()


def check_histories(parameters: EvolutionParameters, lengths: Mapping[str, ListLength]) -> None:
    """Checks that the short history is not empty and not longer than the negative history.

    Raises:
        KfrecError: it is; ``components.models.channels.short_length`` checks the records in the same way.
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
