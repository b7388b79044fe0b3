"""Criteo's display advertising logs: the day files of the terabyte, or the file of the Kaggle competition."""

from __future__ import annotations

from components.datasets.criteo.parameters import Generation, Sampling
from components.datasets.definition import DatasetDefinition, RawContract, RawKind
from components.feature_spec import Channel
from components.lazy import Lazy

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
