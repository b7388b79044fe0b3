"""Synthetic raw reviews in the format of the 2014 Amazon files, of any number."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from components.artifacts import adopt

REVIEWS_PER_USER, REVIEWS_PER_ITEM, CATEGORIES = 40, 50, 500
_BLOCK = 100_000
# A review has a few hundred bytes, mostly text that preprocessing ignores.
_TEXT = "It came on time and does what it says, though the box was dented; I would buy it again for a friend. " * 2


def write_reviews(folder: Path, reviews: int, seed: int = 1, population: int | None = None) -> Path:
    """Writes reviews_benchmark.json.gz and meta_benchmark.json.gz as a raw artifact; returns the folder.

    Users write about 40 reviews each, items follow a power law, lines are in random order. The numbers of users and
    items are those of ``population`` reviews (default: ``reviews``).
    """
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    users, items = (max(1, (population or reviews) // each) for each in (REVIEWS_PER_USER, REVIEWS_PER_ITEM))
    with gzip.open(folder / "reviews_benchmark.json.gz", "wb", compresslevel=1) as file:
        for first in range(0, reviews, _BLOCK):
            count = min(_BLOCK, reviews - first)
            user = random.integers(0, users, count).tolist()
            item = (items * random.random(count) ** 2).astype(np.int64).tolist()
            when = random.integers(1_000_000_000, 1_400_000_000, count).tolist()
            lines = [
                f'{{"reviewerID": "A{u:010d}", "asin": "{i:010d}", "helpful": [0, 0], "reviewText": "{_TEXT}", '
                f'"overall": 5.0, "unixReviewTime": {t}}}\n'
                for u, i, t in zip(user, item, when, strict=True)
            ]
            file.write("".join(lines).encode())
    with gzip.open(folder / "meta_benchmark.json.gz", "wb", compresslevel=1) as file:
        lines = [f"{{'asin': '{i:010d}', 'categories': [['All', 'c{i % CATEGORIES}']]}}\n" for i in range(items)]
        file.write("".join(lines).encode())
    adopt(folder)
    return folder
