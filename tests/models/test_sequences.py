"""What sequential models say about the lengths of histories before there are any."""

from __future__ import annotations

import pytest

from components import registry
from components.errors import KfrecError
from components.feature_spec import Channel, ListLength
from components.models.sequences import check_histories
from components.models.sim import SimParameters
from components.steps.catalog import STEPS

LENGTHS = {Channel.POSITIVE: ListLength(20, "longest"), Channel.NEGATIVE: ListLength(5, "sampled")}


@pytest.mark.parametrize("long", [15, 19])
def test_a_short_history_that_the_negative_one_covers_is_accepted(long: int) -> None:
    check_histories(SimParameters(long_seq_length=long), LENGTHS)


@pytest.mark.parametrize(
    ("long", "line"),
    [
        (20, "parameter long_seq_length=20 leaves no short history of longest=20; choose at most 19"),
        (
            14,
            "parameter sampled=5 is below the short history of 6 items (longest=20 less long_seq_length=14); raise it",
        ),
    ],
)
def test_histories_that_cannot_be_divided_are_one_line(long: int, line: str) -> None:
    with pytest.raises(KfrecError) as raised:
        check_histories(SimParameters(long_seq_length=long), LENGTHS)
    assert str(raised.value).startswith(line)


def test_a_data_set_without_histories_is_not_judged() -> None:
    check_histories(SimParameters(long_seq_length=90), {})


def test_the_reviews_have_the_lengths_that_their_parameters_say() -> None:
    dataset = registry.dataset("amazon_reviews")
    lengths = dataset.lengths(STEPS["preprocess"].of(max_sequence_length=30, negative_sequence_length=4))
    assert {channel: length.values for channel, length in lengths.items()} == {
        Channel.POSITIVE: 30, Channel.NEGATIVE: 4
    }  # fmt: skip
