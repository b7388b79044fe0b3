"""Parameters that all data sets of users' histories share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from components.errors import KfrecError
from components.feature_spec import Channel, ListLength
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


TIME, LAST_ITEM = "time", "last_item"
CONTEMPORARY, POPULARITY, NONE = "contemporary", "popularity", "none"
ALL, WINDOWS = "all", "windows"
EXCLUDE, KEEP = "exclude", "keep"
# The negatives of each split, which ``auto`` stands for.
_AUTO = {TIME: CONTEMPORARY, LAST_ITEM: POPULARITY}


@dataclass(frozen=True)
class Sampling:
    """How reviews become samples."""

    split: str = param(
        TIME,
        "What is tested: time tests on the newest reviews of all users, after one moment before which everything "
        "trains; last_item tests on the last review of each user, as published",
        choices=(TIME, LAST_ITEM),
    )
    test_reviews: float = param(
        0.1, "Share of the reviews, the newest ones, that test with split=time", at_least=0.001, at_most=0.9
    )
    validation_reviews: float = param(
        0.05,
        "Share of the other reviews, the newest ones, that validate with split=time; 0 writes no split validation",
        at_least=0,
        at_most=0.9,
    )
    negatives: str = param(
        "auto",
        "What a negative is drawn from: the reviews within negative_window of the target's, or all reviews that train; "
        "auto is contemporary with split=time, and popularity with split=last_item, as published; none writes no "
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
    seen_items: str = param(
        "auto",
        "Whether items that the user reviewed before are excluded as targets, as negatives, from ranks and from lists, "
        "or kept in all of them; auto keeps with split=last_item and negatives, as published, and where targets are of "
        "other kinds than histories, and else excludes",
        choices=("auto", EXCLUDE, KEEP),
    )
    max_sequence_length: int = param(100, "Longest positive history of a sample", unit="items", at_least=2)
    negative_sequence_length: int = param(
        10, "Length of the negative history, aligned with the newest items", unit="items", at_least=1
    )
    shortest_sequence_for_user: int = param(20, "Users with fewer reviews are dropped", unit="reviews", at_least=2)
    shortest_sequence_for_training: int = param(
        1, "Training samples with a shorter history are dropped", unit="items", at_least=1
    )
    training_targets: str = param(
        ALL,
        "Which reviews are targets of training samples: all, or the newest of every max_sequence_length reviews of a "
        "user, for models that learn from each item of a history",
        choices=(ALL, WINDOWS),
    )
    reviews_per_partition: int = param(
        500_000, "Reviews held in memory at a time by one worker", unit="reviews", at_least=1
    )
    refitting: bool = REFITTING

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
    def has_weights(self) -> bool:
        """Whether events count by a weight."""
        return False

    @property
    def learns_histories(self) -> bool:
        """Whether each item of a history is one that could be a target."""
        return True

    @property
    def window(self) -> int:
        """``negative_window`` in nanoseconds."""
        return round(self.negative_window * 86_400) * 10**9

    def check(self) -> None:
        """The negative history aligns with the newest items of the positive one, so is no longer."""
        if self.negative_sequence_length > self.max_sequence_length:
            raise KfrecError(
                f"parameter negative_sequence_length={self.negative_sequence_length} is above "
                f"max_sequence_length={self.max_sequence_length}; it is aligned with the newest items of the "
                "positive history, so lower it, or raise the other"
            )


def lengths_of(parameters: Sampling) -> Mapping[str, ListLength]:
    """The lengths of the histories."""
    return {
        Channel.POSITIVE: ListLength(parameters.max_sequence_length, "max_sequence_length"),
        Channel.NEGATIVE: ListLength(parameters.negative_sequence_length, "negative_sequence_length"),
    }


if TYPE_CHECKING:

    class PreprocessReviews(Sampling, PreprocessParameters):
        """The parameters of the preprocess step for this data set."""
