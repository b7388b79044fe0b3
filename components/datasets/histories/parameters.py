"""Parameters that all data sets of users' histories share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from components.datasets.definition import Growing
from components.datasets.histories.kinds import listed_kinds
from components.errors import KfrecError
from components.feature_spec import Channel, ListLength
from components.feature_spec.event_columns import EventColumn
from components.parameters import REFITTING, param

if TYPE_CHECKING:
    from components.datasets.parameters import PreprocessParameters


@dataclass(frozen=True)
class Generation:
    """Parameters of the synthetic data set."""

    synthetic_users: int = param(2500, "Users of the synthetic data set", unit="users", at_least=1)
    synthetic_items: int = param(3000, "Items of the synthetic data set", unit="items", at_least=2)
    synthetic_categories: int = param(30, "Categories of the synthetic data set", unit="categories", at_least=1)
    synthetic_shuffled_labels: bool = param(
        False, "Draw synthetic items independently of the user, so that a model cannot learn anything (a control)"
    )
    synthetic_item_lifetime: int = param(
        0,
        "Days that each synthetic item is for sale, chosen uniformly among those for sale; 0 is always, by popularity",
        unit="days",
        at_least=0,
        at_most=6_600,
    )

    @property
    def are_reviews(self) -> bool:
        """Whether the data are those of ``components.datasets.histories.synthetic``."""
        return True

    def check(self) -> None:
        """Requires an item per synthetic category."""
        if self.synthetic_items < self.synthetic_categories:
            raise KfrecError(
                f"parameter synthetic_items={self.synthetic_items} is below "
                f"synthetic_categories={self.synthetic_categories}; a category needs at least one item"
            )


TIME, LAST_ITEM, LAST_TWO_ITEMS = "time", "last_item", "last_two_items"
CONTEMPORARY, POPULARITY, NONE = "contemporary", "popularity", "none"
ALL, WINDOWS = "all", "windows"
EXCLUDE, KEEP = "exclude", "keep"
WITH_EVENT, WITH_DAY = "event", "day"
# The negatives of each split, which ``auto`` stands for.
_AUTO = {TIME: CONTEMPORARY, LAST_ITEM: POPULARITY, LAST_TWO_ITEMS: POPULARITY}
# The last targets of each user that do not train.
_HELD_OUT = {TIME: 0, LAST_ITEM: 1, LAST_TWO_ITEMS: 2}


@dataclass(frozen=True)
class Sampling:
    """How reviews become samples."""

    split: str = param(
        TIME,
        "What is tested: time tests on the newest events of all users, after one moment before which everything "
        "trains; last_item tests on the last event of each user, as published; last_two_items does, too, and validates "
        "on the one before, which never trains, as published for models of the next item",
        choices=(TIME, LAST_ITEM, LAST_TWO_ITEMS),
    )
    test_reviews: float = param(
        0.1, "Share of the events, the newest ones, that test with split=time", at_least=0.001, at_most=0.9
    )
    validation_reviews: float = param(
        0.05,
        "Share of the other events, the newest ones, that validate with split=time; 0 writes no split validation",
        at_least=0,
        at_most=0.9,
    )
    negatives: str = param(
        "auto",
        "What a negative is drawn from: the events within negative_window of the target's, or all events that train; "
        "auto is contemporary with split=time, and popularity with the other ones, as published; none writes no "
        "negatives, for models that compare the target with all items",
        choices=("auto", CONTEMPORARY, POPULARITY, NONE),
    )
    negative_window: float = param(
        30.0,
        "Largest distance in time of a contemporary negative from the target",
        unit="days",
        at_least=0,
        at_most=36_500,
    )
    popularity_days: float = param(
        7.0,
        "Days at the end of the training events in which the baseline of recent popularity counts items",
        unit="days",
        at_least=0,
        at_most=36_500,
    )
    seen_items: str = param(
        "auto",
        "Whether items that the user had before are excluded as targets, as negatives, from ranks and from lists, "
        "or kept in all of them; auto keeps with split=last_item and negatives, as published, and where targets are of "
        "other kinds than histories, and else excludes",
        choices=("auto", EXCLUDE, KEEP),
    )
    history_ends: str = param(
        WITH_EVENT,
        "What the history of a target ends with: event, the event before it, as a server sees it, or day, the day "
        "before it (UTC), as lists made overnight see it; auto is day with split=time and without negatives, if most "
        "targets have events of earlier days, and else event",
        choices=("auto", WITH_EVENT, WITH_DAY),
    )
    max_sequence_length: int = param(100, "Longest positive history of a sample", unit="items", at_least=2)
    negative_sequence_length: int = param(
        10, "Length of the negative history, aligned with the newest items", unit="items", at_least=1
    )
    shortest_sequence_for_user: int = param(20, "Users with fewer events are dropped", unit="events", at_least=2)
    shortest_sequence_for_training: int = param(
        1, "Training samples with a shorter history are dropped", unit="items", at_least=1
    )
    training_targets: str = param(
        ALL,
        "Which events are targets of training samples: all, or the newest of every max_sequence_length events of a "
        "user, for models that learn from each item of a history",
        choices=(ALL, WINDOWS),
    )
    item_columns: str = param(
        "",
        "What is known of the items beside their category, columns of the items' data separated by commas, such as "
        "price,title: numbers, texts or, in parquet, lists of numbers, by which models of vectors of items know new "
        "items, too",
    )
    reviews_per_partition: int = param(
        500_000, "Events held in memory at a time by one worker", unit="events", at_least=1
    )
    refitting: bool = REFITTING

    @property
    def held_out(self) -> int:
        """How many of the last targets of each user do not train; 0 for a split by time."""
        return _HELD_OUT[self.split]

    @property
    def holds_out_validation(self) -> bool:
        """Whether the last target but one of each user validates, and what nobody chose before the test is no test."""
        return self.held_out > 1 and not self.refitting

    @property
    def is_contemporary(self) -> bool:
        """Whether negatives are of the target's time."""
        return (_AUTO[self.split] if self.negatives == "auto" else self.negatives) == CONTEMPORARY

    @property
    def has_negatives(self) -> bool:
        """Whether each target has a negative."""
        return self.negatives != NONE

    @property
    def excludes_seen(self) -> bool:
        """Whether items that the user reviewed before are neither targets nor negatives, nor compete with targets."""
        if self.seen_items != "auto":
            return self.seen_items == EXCLUDE
        as_published = self.split == LAST_ITEM and self.has_negatives
        return not as_published and self.learns_histories

    @property
    def chosen_kinds(self) -> Mapping[str, Sequence[str]]:
        """The kinds of target_kinds and context_kinds, for the metadata; without an entry where all are."""
        return {}

    @property
    def event_columns(self) -> Sequence[EventColumn]:
        """The columns of events that models read."""
        return ()

    @property
    def of_items(self) -> Sequence[str]:
        """The columns of items that models read."""
        return listed_kinds(self.item_columns)

    @property
    def has_weights(self) -> bool:
        """Whether events count by a weight."""
        return False

    @property
    def weighs_targets(self) -> bool:
        """Whether targets count by their weights in the loss."""
        return False

    @property
    def grows(self) -> bool:
        """Whether the vocabulary grows; see ``components.datasets.histories.growing``."""
        return False

    @property
    def learns_histories(self) -> bool:
        """Whether each item of a history is one that could be a target."""
        return True

    @property
    def ends_with_day(self) -> bool:
        """Whether histories end with the day before their target; see ``settled``."""
        return self.history_ends == WITH_DAY

    def settled(self, earlier_day: int, same_day: int) -> Self:
        """The parameters with what ``history_ends=auto`` stands for.

        Args:
            earlier_day: events with a history whose user has one on an earlier day.
            same_day: the others.
        """
        if self.history_ends != "auto":
            return self
        by_day = self.split == TIME and not self.has_negatives and earlier_day > same_day
        return replace(self, history_ends=WITH_DAY if by_day else WITH_EVENT)

    @property
    def has_windows(self) -> bool:
        """Whether a training sample stands for all items of its history: each of them is one that could be a target."""
        return self.training_targets == WINDOWS and self.learns_histories

    @property
    def has_days(self) -> bool:
        """Whether training samples, which hold the target's day, too, tell the days of their items."""
        return self.ends_with_day and self.has_windows

    @property
    def window(self) -> int:
        """``negative_window`` in nanoseconds."""
        return _nanoseconds(self.negative_window)

    @property
    def recent(self) -> int:
        """``popularity_days`` in nanoseconds."""
        return _nanoseconds(self.popularity_days)

    def check(self) -> None:
        """The negative history aligns with the newest items of the positive one, so is no longer."""
        if self.negative_sequence_length > self.max_sequence_length:
            raise KfrecError(
                f"parameter negative_sequence_length={self.negative_sequence_length} is above "
                f"max_sequence_length={self.max_sequence_length}; it is aligned with the newest items of the "
                "positive history, so lower it, or raise the other"
            )


@dataclass(frozen=True)
class GrowingSampling(Growing, Sampling):
    """The same where a vocabulary can grow."""

    admit_after: int = param(
        1,
        "Where a vocabulary grows: events after which a new user, item or category gets a row of it",
        unit="events",
        at_least=1,
    )

    @property
    def grows(self) -> bool:
        """See ``Sampling``."""
        return self.vocabulary_slack > 0

    def check(self) -> None:
        """Requires a split by time of what grows."""
        super().check()
        if self.grows and self.split != TIME:
            raise KfrecError(
                f"parameters vocabulary_slack={self.vocabulary_slack:g} and split={self.split}: a vocabulary grows by "
                "the events since a moment; set split=time, or vocabulary_slack=0"
            )


def _nanoseconds(days: float) -> int:
    return round(days * 86_400) * 10**9


def lengths_of(parameters: Sampling) -> Mapping[str, ListLength]:
    """The lengths of the histories."""
    return {
        Channel.POSITIVE: ListLength(parameters.max_sequence_length, "max_sequence_length"),
        Channel.NEGATIVE: ListLength(parameters.negative_sequence_length, "negative_sequence_length"),
    }


if TYPE_CHECKING:

    class PreprocessReviews(GrowingSampling, PreprocessParameters):
        """The parameters of the preprocess step for this data set; those of growing only where ``grows``."""
