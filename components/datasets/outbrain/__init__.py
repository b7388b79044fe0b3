"""Outbrain Click Prediction, as in the public Wide & Deep: ads shown below articles, and which of them was clicked."""

from __future__ import annotations

from dataclasses import dataclass

from components.datasets.definition import DatasetDefinition
from components.datasets.outbrain.raw_files import CONTRACT
from components.lazy import Lazy
from components.parameters import param


@dataclass(frozen=True)
class Generation:
    """Parameters of the synthetic data set."""

    synthetic_displays: int = param(
        30_000, "Displays of the synthetic data set, with about five ads each", unit="displays", at_least=1
    )
    synthetic_ads: int = param(400, "Ads of the synthetic data set", unit="ads", at_least=24)
    synthetic_documents: int = param(
        1000, "Documents that synthetic users view, in addition to one a synthetic ad", unit="documents", at_least=1
    )
    synthetic_shuffled_labels: bool = param(
        False, "Draw the clicked ad of a synthetic display uniformly, so that a model cannot learn anything (a control)"
    )


@dataclass(frozen=True)
class Sampling:
    """How displays become samples."""

    last_training_day: int = param(
        10, "Displays of later days, counted from 0, are test samples", unit="days", at_least=0, at_most=100_000
    )
    test_share: float = param(
        0.2, "Share of the displays up to last_training_day that are test samples", at_least=0, at_most=1
    )
    rate_folds: int = param(
        5,
        "Folds of displays; the click-through rates of a training sample leave out its own fold. 1 leaves out nothing, "
        "as published, so that a sample sees its own click",
        unit="folds",
        at_least=1,
        at_most=50,
    )
    largest_buckets: int = param(
        300_000, "Features with more hash buckets in the published table get this many", unit="buckets", at_least=1
    )
    clicks_per_partition: int = param(
        250_000, "Lines of clicks_train held in memory at a time by one worker", unit="lines", at_least=1
    )


DATASET = DatasetDefinition(
    name="outbrain",
    summary="Ads in displays on pages, of which one was clicked.",
    raw=CONTRACT,
    generation=Generation,
    generate=Lazy("components.datasets.outbrain.synthetic:write_synthetic"),
    sampling=Sampling,
    preprocess=Lazy("components.datasets.outbrain.preprocess:preprocess"),
    no_raw_rows="a sample joins seven files",
)
