"""The data set toy_shop: offers_*.csv, each line an item, its tags, a price, and whether the offer was taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from components.datasets import DatasetDefinition, PreprocessJob, RawContract, RawKind
from components.errors import KfrecError
from components.feature_spec import Channel, Feature, FeatureSpec
from components.steps.parameter import param

ITEMS, TAGS = 30, 8
OFFERS = RawKind("offers", r"offers_.+\.csv", "offers_*.csv", "offers")


@dataclass(frozen=True)
class Generation:
    """Of the synthetic offers."""

    toy_offers: int = param(4000, "Offers of the synthetic data set", unit="offers", at_least=10)


@dataclass(frozen=True)
class Sampling:
    """How offers become samples."""

    test_share: float = param(0.2, "Share of the offers that are held out", at_least=0.01, at_most=0.9)


def _generate(parameters: Generation, folder: Path) -> None:
    """Whether an offer is taken hangs on its item, on one of its tags, and on its price."""
    random = np.random.default_rng(12345)
    lines = []
    for _ in range(parameters.toy_offers):
        item, price = int(random.integers(1, ITEMS + 1)), float(random.uniform(0, 2))
        tags = random.choice(np.arange(1, TAGS + 1), int(random.integers(0, 4)), replace=False).tolist()
        liking = 1.5 * (item % 3 - 1) + 2.0 * (3 in tags) - 1.5 * (price - 1)
        taken = int(random.random() < 1 / (1 + np.exp(-liking)))
        lines.append(f"{item},{' '.join(map(str, tags))},{price:.4f},{taken}\n")
    (folder / "offers_synthetic.csv").write_text("".join(lines))


def _preprocess(job: PreprocessJob) -> Mapping[str, int]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = [path for path in job.raw.paths("*") if OFFERS.matches(path.name)]
    rows = []
    for path in paths:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            try:
                item, tags, price, taken = line.split(",")
                rows.append((int(taken), int(item), [int(tag) for tag in tags.split()], float(price)))
            except ValueError:
                raise KfrecError(f"{path}: line {number} is not item,tags,price,taken; correct it") from None
    order = np.random.default_rng(job.parameters.seed).permutation(len(rows))
    held_out = int(len(rows) * job.parameters.test_share)
    counts = {}
    for split, chosen in (("test", order[:held_out]), ("train", order[held_out:])):
        label, item, tags, price = zip(*(rows[index] for index in chosen), strict=True)
        table = pa.table({
            "taken": pa.array(label, pa.int8()),
            "item": pa.array(item, pa.int32()),
            "tags": pa.array(tags, pa.list_(pa.int32())),
            "price": pa.array(price, pa.float32()),
        })  # fmt: skip
        (job.folder / split).mkdir()
        pq.write_table(table, job.folder / split / "part.0.parquet")
        counts[split] = len(chosen)
    features = [
        Feature("taken", "bool"),
        Feature("item", "int64", ITEMS),
        Feature("tags", "int64", TAGS, 3),
        Feature("price", "float32"),
    ]
    channels = {Channel.LABEL: ("taken",), "item": ("item",), "tags": ("tags",), "numbers": ("price",)}
    spec = FeatureSpec({feature.name: feature for feature in features}, {}, channels)
    (job.folder / "feature_spec.yaml").write_text(spec.to_yaml())
    return counts


DATASET = DatasetDefinition(
    name="toy_shop",
    summary="Offers, and which of them were taken.",
    raw=RawContract((OFFERS,)),
    generation=Generation,
    generate=_generate,
    sampling=Sampling,
    preprocess=_preprocess,
)
