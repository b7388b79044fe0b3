"""Criteo's display advertising logs: the day files of the terabyte, or the file of the Kaggle competition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from components.datasets.definition import DatasetDefinition, Growing, RawContract, RawKind
from components.errors import KfrecError
from components.feature_spec import Channel
from components.lazy import Lazy
from components.parameters import param

if TYPE_CHECKING:
    from components.datasets.parameters import PreprocessParameters

PLANTED, POWER_LAW = "planted", "power_law"


@dataclass(frozen=True)
class Generation:
    """Parameters of the synthetic data set."""

    synthetic_impressions: int = param(
        200_000, "Impressions of the synthetic data set, over all its days", unit="impressions", at_least=10
    )
    synthetic_days: int = param(5, "Day files of the synthetic data set", unit="days", at_least=1, at_most=10_000)
    synthetic_labels: str = param(
        PLANTED,
        "Labels of the synthetic data set: clicks with planted causes, whose best possible AUC is known, or fair coins "
        "as in the public generator",
        choices=(PLANTED, POWER_LAW),
    )
    synthetic_values: int = param(
        1000,
        "Most distinct values of a synthetic column; from 8165896 on the columns are as large as the published ones "
        "with threshold 15",
        unit="values",
        at_least=1,
    )
    synthetic_turnover: float = param(
        0.0,
        "Share of the distinct values of a synthetic column that others replace each day, with causes of their own",
        at_least=0,
        at_most=1,
    )
    synthetic_shuffled_labels: bool = param(
        False, "Draw synthetic labels independently of the features, so that a model cannot learn anything (a control)"
    )

    def check(self) -> None:
        """Requires an impression per day."""
        if self.synthetic_impressions < self.synthetic_days:
            raise KfrecError(
                f"parameter synthetic_impressions={self.synthetic_impressions} is below "
                f"synthetic_days={self.synthetic_days}; every day needs at least one"
            )


@dataclass(frozen=True)
class Sampling(Growing):
    """How impressions become samples."""

    frequency_threshold: int = param(
        15,
        "Values that occur less often in the training days count as rare; 0 and 1 keep all values. Where a vocabulary "
        "grows, a value gets a row once it occurred so often",
        unit="impressions",
        at_least=0,
    )
    test_day: int = param(
        -1, "Number of the day file to test on; the days before it train, those after it are not read; -1 is the last",
        at_least=-1,
    )  # fmt: skip
    test_day_share: float = param(
        0.5, "Share of the test day, from its beginning, that makes the test split; the rest is not used",
        at_least=0.000001, at_most=1,
    )  # fmt: skip
    train_days: int = param(0, "Days right before the test day that train; 0 is all", unit="days", at_least=0)
    test_share: float = param(
        0.1, "Where there is only one file: share of its impressions, from its end, that makes the test split",
        at_least=0.000001, at_most=0.99,
    )  # fmt: skip
    impressions_per_partition: int = param(
        500_000, "Impressions that one worker processes at a time", unit="impressions", at_least=1
    )


if TYPE_CHECKING:

    class PreprocessImpressions(Sampling, PreprocessParameters):
        """The parameters of the preprocess step for this data set."""


DAYS = RawKind(
    "day", r"(day_\d+|train\.txt)(\.gz)?", "day_0, day_1, ... or train.txt, plain or with .gz", "impressions"
)
CONTRACT = RawContract((DAYS,))

DATASET = DatasetDefinition(
    name="criteo",
    summary="Impressions of advertisements with 13 numbers and 26 categories, and whether each was clicked.",
    raw=CONTRACT,
    generation=Generation,
    generate=Lazy("components.datasets.criteo.synthetic:write_synthetic"),
    sampling=Sampling,
    preprocess=Lazy("components.datasets.criteo.preprocess:preprocess"),
    task="click",
    lacks=lambda source, parameters: (Channel.GROUP,),
    raw_rows=Lazy("components.datasets.criteo.raw_rows:ImpressionRows"),
    # Half of a small day would be lost.
    local_defaults={"test_day_share": 1.0},
)
