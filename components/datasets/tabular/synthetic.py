"""A small table with planted structure, and its schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from components.datasets.tabular.raw_files import FILENAME
from components.progress import progress

TABLE = "visits.csv"
_ROWS_AT_A_TIME = 50_000
_CITIES, _TAGS, _ROWS_OF_A_VISIT = 60, 12, 4
SCHEMA = """\
# A synthetic table: offers of a visit, and which of them were bought.
label: {column: bought}
split: {by: random, share: 0.2}
columns:
  price: {role: numeric, log: true, bins: 20}
  age: {role: numeric}
  city: {role: categorical, at_least: 5}
  shop: {role: categorical, buckets: 200}
  tags: {role: multihot, separator: "|", longest: 4}
  visit: {role: group}
drop: [comment]
"""


def write_synthetic(parameters: Any, folder: Path) -> None:
    """Generates visits.csv and schema.yaml in ``folder``; the same parameters give the same bytes.

    The log-odds of a purchase add effects of the city, each tag, the age and the price, with a peak at medium prices.
    One age in ten is missing, and one label in ten is flipped at random.
    """
    effects = np.random.default_rng([parameters.seed, 0])
    city_effect = effects.normal(0, 0.8, _CITIES)
    tag_effect = effects.normal(0, 0.8, _TAGS)
    (folder / FILENAME).write_text(SCHEMA)
    rows = parameters.synthetic_rows
    with (folder / TABLE).open("w", newline="") as file, progress("generating rows", rows, "rows") as bar:
        for first in range(0, rows, _ROWS_AT_A_TIME):
            count = min(_ROWS_AT_A_TIME, rows - first)
            random = np.random.default_rng([parameters.seed, 1, first])
            table = _draw(random, first, count, city_effect, tag_effect, parameters.synthetic_shuffled_labels)
            table.to_csv(file, index=False, header=not first, float_format="%.2f", lineterminator="\n")
            bar.advance(count)


def _draw(
    random: np.random.Generator,
    first: int,
    count: int,
    city_effect: np.ndarray,
    tag_effect: np.ndarray,
    shuffled: bool,
) -> pd.DataFrame:
    city = random.zipf(1.5, count) % _CITIES
    tagged = random.random((count, _TAGS)) < 0.15
    age, price = random.normal(45, 15, count).clip(18, 90), random.lognormal(3, 1, count)
    logits = city_effect[city] + tagged @ tag_effect + 0.04 * (age - 45) - 1.2 * np.abs(np.log(price) - 3) + 0.3
    bought = random.random(count) < 1 / (1 + np.exp(-logits))
    bought ^= random.random(count) < 0.1
    if shuffled:
        random.shuffle(bought)
    names = np.array([f"tag {tag}" for tag in range(_TAGS)])
    return pd.DataFrame(
        {
            "bought": bought.astype(int),
            "visit": (first + np.arange(count)) // _ROWS_OF_A_VISIT,
            "price": price,
            "age": np.where(random.random(count) < 0.1, np.nan, np.floor(age)),
            "city": [f"city {number}" for number in city],
            "shop": random.integers(0, 150, count),
            "tags": ["|".join(names[row]) for row in tagged],
            "comment": "",
        }
    )
