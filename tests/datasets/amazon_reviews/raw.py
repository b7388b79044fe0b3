"""Small raw folders for the tests, and how to read what comes of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from components.artifacts import adopt
from tests.preprocess import running

Review = tuple[str, str, int]

# Histories are of at most 4, and targets as published, unless told otherwise.
_SMALL = {
    "max_sequence_length": 4,
    "negative_sequence_length": 2,
    "shortest_sequence_for_user": 3,
    "split": "last_item",
}


def preprocess(raw: Path, output: Path, **parameters: Any) -> Mapping[str, int]:
    return running.preprocess(raw, output, **(_SMALL | parameters))


def error_of(raw: Path, output: Path, **parameters: Any) -> str:
    return running.error_of(raw, output, **(_SMALL | parameters))


def review_line(user: str, item: str, time: int) -> str:
    return json.dumps({"reviewerID": user, "asin": item, "overall": 5.0, "unixReviewTime": time})


def raw_folder(folder: Path, reviews: Iterable[Review | str], categories: Mapping[str, str] | Iterable[str]) -> Path:
    """A raw artifact. A text among the reviews, or in place of the categories, is a line as it stands."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [review if isinstance(review, str) else review_line(*review) for review in reviews]
    (folder / "reviews_Test.json").write_text("".join(f"{line}\n" for line in lines))
    if isinstance(categories, Mapping):
        categories = [repr({"asin": item, "categories": [["Root", name]]}) for item, name in categories.items()]
    (folder / "meta_Test.json").write_text("".join(f"{line}\n" for line in categories))
    adopt(folder)
    return folder


def random_reviews(users: int, items: int, seed: int, longest: int = 12) -> list[Review]:
    random = np.random.default_rng(seed)
    return [
        (f"u{user}", f"i{item}", int(time))
        for user in range(users)
        for item, time in zip(*random.integers(0, [[items], [50]], (2, random.integers(2, longest + 1))), strict=True)
    ]


def samples(output: Path, split: str) -> list[dict[str, Any]]:
    """All samples of a split, file by file."""
    files = sorted((output / split).glob("part.*.parquet"), key=lambda path: int(path.suffixes[0][1:]))
    return [row for path in files for row in pq.read_table(path).to_pylist()]


def vocabulary(output: Path, name: str) -> dict[int, str]:
    table = pq.read_table(output / "vocabulary" / f"{name}.parquet")
    return dict(zip(table["id"].to_pylist(), table["value"].to_pylist(), strict=True))


def named(output: Path, split: str) -> list[dict[str, Any]]:
    """The samples of a split with names in place of ids: None is padding, "?" out of vocabulary."""
    names: dict[str, dict[int, str | None]] = {
        kind: {0: None, 2: "?", **vocabulary(output, kind)} for kind in ("uid", "item", "cat")
    }

    def name(column: str, value: Any) -> Any:
        kind = column.removeprefix("neg_").removesuffix("_sequence")
        if kind not in names:
            return value
        return [names[kind][v] for v in value] if isinstance(value, list) else names[kind][value]

    return [{column: name(column, value) for column, value in row.items()} for row in samples(output, split)]
