"""Writes the synthetic data set as day files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from components.datasets.criteo import hexadecimal
from components.datasets.criteo.columns import CATEGORICAL, LABEL, NUMERICAL
from components.datasets.criteo.synthetic.impressions import BLOCK, Impressions, draw, truth_of, values_of
from components.progress import progress

_WRITE = pv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")


def write_synthetic(parameters: Any, folder: Path) -> None:
    """Generates day_0, day_1, ... in ``folder``, all but the last of equal size.

    The same parameters give the same bytes. Some ten thousand impressions are held in memory at a time.
    """
    truth = truth_of(parameters)
    total, days = parameters.synthetic_impressions, parameters.synthetic_days
    with progress("generating impressions", total, "impressions") as bar:
        for day in range(days):
            rows = total // days if day < days - 1 else total - total // days * (days - 1)
            with (folder / f"day_{day}").open("wb") as file:
                for block, first in enumerate(range(0, rows, BLOCK)):
                    count = min(BLOCK, rows - first)
                    pv.write_csv(_lines(draw(parameters, truth, day, block, count)), file, _WRITE)
                    bar.advance(count)


def _lines(impressions: Impressions) -> pa.Table:
    columns = {LABEL: pa.array(impressions.labels)}
    for number, name in enumerate(NUMERICAL):
        integers = impressions.integers[:, number]
        columns[name] = pa.array(integers, mask=integers < 0)
    for number, name in enumerate(CATEGORICAL):
        ids = impressions.ids[:, number]
        texts = hexadecimal.write(values_of(number, ids))
        columns[name] = _with_nulls(texts, ids < 0) if (ids < 0).any() else texts
    return pa.table(columns)


def _with_nulls(texts: pa.StringArray, missing: np.ndarray) -> pa.Array:
    return pc.if_else(pa.array(missing), None, texts)
