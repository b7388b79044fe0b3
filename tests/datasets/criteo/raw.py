"""Small raw folders for the tests, and the samples by a plain implementation with dictionaries."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from components.artifacts import adopt
from components.datasets.criteo.columns import CATEGORICAL, LABEL, NUMERICAL
from tests.preprocess import running

Line = list[str]

preprocess = partial(running.preprocess, dataset="criteo")
error_of = partial(running.error_of, dataset="criteo")


def random_lines(rows: int, seed: int = 0, values: int = 12) -> list[Line]:
    """Fields of lines; a fifth of all but the labels is empty."""
    random = np.random.default_rng(seed)
    lines = []
    for _ in range(rows):
        integers = [str(value) for value in random.integers(-3, 100, len(NUMERICAL))]
        texts = [f"{value * 0x01234567 % 2**32:08x}" for value in random.zipf(1.5, len(CATEGORICAL)) % values]
        fields = ["" if random.random() < 0.2 else field for field in (*integers, *texts)]
        lines.append([str(random.integers(0, 2)), *fields])
    return lines


def text_of(lines: Sequence[Line]) -> str:
    return "".join("\t".join(line) + "\n" for line in lines)


def raw_folder(folder: Path, **days: Sequence[Line] | str) -> Path:
    """A raw artifact with a file day_<n> for each keyword, or train.txt for the keyword train."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in days.items():
        text = lines if isinstance(lines, str) else text_of(lines)
        (folder / ("train.txt" if name == "train" else name)).write_text(text)
    if days:
        adopt(folder)
    return folder


def vocabulary(output: Path, name: str) -> dict[str, int]:
    table = pq.read_table(output / "vocabulary" / f"{name}.parquet")
    return dict(zip(table["value"].to_pylist(), table["id"].to_pylist(), strict=True))


def expected_vocabularies(train: Sequence[Line], threshold: int) -> list[dict[str, int]]:
    """By falling count, ties by value, from 1."""
    found = []
    for column in range(len(CATEGORICAL)):
        counts = Counter(line[14 + column] for line in train if line[14 + column])
        kept = sorted((value for value in counts if counts[value] >= threshold), key=lambda v: (-counts[v], v))
        found.append({value: number for number, value in enumerate(kept, 1)})
    return found


def expected_samples(lines: Sequence[Line], vocabularies: Sequence[Mapping[str, int]]) -> list[dict[str, Any]]:
    """Samples whose floats are rounded to float32."""
    rows = []
    for label, *fields in lines:
        row: dict[str, Any] = {LABEL: int(label)}
        for name, field in zip(NUMERICAL, fields, strict=False):
            row[name] = float(np.float32(math.log(max(int(field), -2) + 3))) if field else 0.0
        for name, field, ids in zip(CATEGORICAL, fields[len(NUMERICAL) :], vocabularies, strict=True):
            row[name] = ids.get(field, 0)
        rows.append(row)
    return rows


def assert_samples(found: Sequence[Mapping[str, Any]], expected: Sequence[Mapping[str, Any]]) -> None:
    """Labels and ids are equal; the last bits of a logarithm depend on the processor and on the size of a partition."""
    for rows in (found, expected):
        assert all(row.keys() == {LABEL, *NUMERICAL, *CATEGORICAL} for row in rows)
    whole = (LABEL, *CATEGORICAL)
    assert [[row[name] for name in whole] for row in found] == [[row[name] for name in whole] for row in expected]
    ours, theirs = ([[row[name] for name in NUMERICAL] for row in rows] for rows in (found, expected))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
