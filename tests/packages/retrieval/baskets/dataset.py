"""The data set baskets: baskets_*.csv, each line a user and an item that the user bought."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from components.datasets import DatasetDefinition, PreprocessJob, RawContract, RawKind
from components.feature_spec import Feature, FeatureSpec
from components.parameters import param

USERS, ITEMS = 30, 50
SALES = RawKind("sales", r"baskets_.+\.csv", "baskets_*.csv", "sales")


@dataclass(frozen=True)
class Generation:
    """Of the synthetic sales."""

    sales: int = param(3000, "Sales of the synthetic data set", unit="sales", at_least=10)


@dataclass(frozen=True)
class Sampling:
    """How sales become samples."""

    held_out: float = param(0.2, "Share of the sales that are held out", at_least=0.01, at_most=0.9)


def _generate(parameters: Generation, folder: Path) -> None:
    """A user buys items of one residue of their number by 5, the first ones more often."""
    random, rows = np.random.default_rng(12345), parameters.sales
    user = random.integers(1, USERS + 1, rows)
    place = np.minimum(random.geometric(0.3, rows) - 1, ITEMS // 5 - 1)
    lines = [f"{u},{i}\n" for u, i in zip(user, 1 + user % 5 + 5 * place, strict=True)]
    (folder / "baskets_synthetic.csv").write_text("".join(lines))


def _preprocess(job: PreprocessJob) -> Mapping[str, int]:
    import pandas as pd

    sales = pd.concat([pd.read_csv(path, names=["user", "item"]) for path in SALES.files(job.raw)])
    sales["share"] = (sales.groupby("item")["item"].transform("size") / len(sales)).astype(np.float32)
    sales = sales.sample(frac=1, random_state=job.parameters.seed)
    held_out, counts = int(len(sales) * job.parameters.held_out), {}
    for split, rows in (("test", sales[:held_out]), ("train", sales[held_out:])):
        (job.folder / split).mkdir()
        rows.to_parquet(job.folder / split / "part.0.parquet", index=False)
        counts[split] = len(rows)
    features = [Feature("user", "int64", USERS), Feature("item", "int64", ITEMS), Feature("share", "float32")]
    channels = {feature.name: (feature.name,) for feature in features}
    encoding = {"encoding": {"dataset": DATASET.name}}
    spec = FeatureSpec({feature.name: feature for feature in features}, {}, channels, encoding)
    (job.folder / "feature_spec.yaml").write_text(spec.to_yaml())
    return counts


DATASET = DatasetDefinition(
    name="baskets",
    summary="Items that users bought, without a label.",
    raw=RawContract((SALES,)),
    generation=Generation,
    generate=_generate,
    sampling=Sampling,
    preprocess=_preprocess,
    no_raw_rows="its vectors are looked up in an index",
)
