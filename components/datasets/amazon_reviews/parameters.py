"""Parameters of the data set amazon_reviews."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from components.errors import KfrecError
from components.steps.parameter import param

if TYPE_CHECKING:
    from components.steps.catalog import PreprocessParameters


@dataclass(frozen=True)
class Generation:
    """Parameters of the synthetic data set."""

    synthetic_users: int = param(2500, "Users of the synthetic data set", unit="users", at_least=1)
    synthetic_items: int = param(3000, "Items of the synthetic data set", unit="items", at_least=2)
    synthetic_categories: int = param(30, "Categories of the synthetic data set", unit="categories", at_least=1)
    synthetic_reviews_per_user: int = param(
        25, "Mean number of reviews a synthetic user writes", unit="reviews", at_least=1
    )
    synthetic_shuffled_labels: bool = param(
        False, "Draw synthetic items independently of the user, so that a model cannot learn anything (a control)"
    )

    def check(self) -> None:
        """Requires an item per synthetic category."""
        if self.synthetic_items < self.synthetic_categories:
            raise KfrecError(
                f"parameter synthetic_items={self.synthetic_items} is below "
                f"synthetic_categories={self.synthetic_categories}; a category needs at least one item"
            )


@dataclass(frozen=True)
class Sampling:
    """How reviews become samples."""

    max_sequence_length: int = param(100, "Longest positive history of a sample", unit="items", at_least=2)
    negative_sequence_length: int = param(
        10, "Length of the negative history, aligned with the newest items", unit="items", at_least=1
    )
    shortest_sequence_for_user: int = param(20, "Users with fewer reviews are dropped", unit="reviews", at_least=2)
    shortest_sequence_for_training: int = param(
        1, "Training samples with a shorter history are dropped", unit="items", at_least=1
    )
    reviews_per_partition: int = param(
        500_000, "Reviews held in memory at a time by one worker", unit="reviews", at_least=1
    )

    def check(self) -> None:
        """The negative history aligns with the newest items of the positive one, so is no longer."""
        if self.negative_sequence_length > self.max_sequence_length:
            raise KfrecError(
                f"parameter negative_sequence_length={self.negative_sequence_length} is above "
                f"max_sequence_length={self.max_sequence_length}; it is aligned with the newest items of the "
                "positive history, so lower it, or raise the other"
            )


if TYPE_CHECKING:

    class PreprocessReviews(Sampling, PreprocessParameters):
        """The parameters of the preprocess step for this data set."""
