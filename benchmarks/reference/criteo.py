"""Criteo's preprocessing with pandas, polars or NVTabular: python -m benchmarks.reference.criteo NAME RAW OUT.

They implement the defaults of the data set criteo: ids by falling count in the training days, ties by value, 0 for
missing values and those below the threshold; ln(x + 3) of the integers; the first half of the last day as test split.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np

from components.datasets.criteo.columns import CATEGORICAL, LABEL, NUMERICAL

THRESHOLD, TEST_SHARE = 15, 0.5
_NAMES = [LABEL, *NUMERICAL, *CATEGORICAL]


def with_pandas(days: list[Path], out: Path) -> None:
    """Each split as one data frame in memory."""
    import pandas as pd

    kinds = dict.fromkeys(CATEGORICAL, "string[pyarrow]")
    frames = [pd.read_csv(day, sep="\t", names=_NAMES, dtype=kinds, engine="c") for day in days]
    train, test = pd.concat(frames[:-1], ignore_index=True), frames[-1]
    test = test.iloc[: round(len(test) * TEST_SHARE)].copy()
    for name in CATEGORICAL:
        counts = train[name].value_counts().rename_axis("value").reset_index(name="count")
        kept = counts[counts["count"] >= THRESHOLD].sort_values(["count", "value"], ascending=[False, True])
        ids = pd.Series(np.arange(1, len(kept) + 1), index=kept["value"])
        for frame in (train, test):
            frame[name] = frame[name].map(ids).fillna(0).astype(np.int32)
    for split, frame in (("train", train), ("test", test)):
        for name in NUMERICAL:
            frame[name] = np.log(frame[name].fillna(-2).clip(lower=-2) + 3).astype(np.float32)
        frame.to_parquet(out / f"{split}.parquet", compression="lz4", index=False)


def with_polars(days: list[Path], out: Path) -> None:
    """Lazy frames, which polars reads and writes in batches; the last day's rows are counted first."""
    import polars as pl

    kinds = {LABEL: pl.Int8, **dict.fromkeys(NUMERICAL, pl.Int64), **dict.fromkeys(CATEGORICAL, pl.String)}
    scan = partial(pl.scan_csv, separator="\t", has_header=False, schema=kinds, quote_char=None)
    train, last = scan(days[:-1]), scan(days[-1:])
    counted = pl.collect_all(
        [train.drop_nulls(name).group_by(name).len().filter(pl.col("len") >= THRESHOLD) for name in CATEGORICAL]
    )
    tables = {}
    for name, counts in zip(CATEGORICAL, counted, strict=True):
        kept = counts.sort(["len", name], descending=[True, False]).with_row_index("id", offset=1)
        tables[name] = kept.select(name, pl.col("id").cast(pl.Int32))
    rows = last.select(pl.len()).collect().item()
    logarithms = [
        (pl.col(name).fill_null(-2).clip(-2) + 3).cast(pl.Float64).log().cast(pl.Float32).alias(name)
        for name in NUMERICAL
    ]
    for split, frame in (("train", train), ("test", last.head(round(rows * TEST_SHARE)))):
        for name in CATEGORICAL:
            known = tables[name].lazy()
            frame = frame.join(known, on=name, how="left", maintain_order="left").drop(name).rename({"id": name})
        frame = frame.with_columns(*logarithms, *(pl.col(name).fill_null(0) for name in CATEGORICAL))
        frame.select(_NAMES).sink_parquet(out / f"{split}.parquet", compression="lz4")


def with_nvtabular(days: list[Path], out: Path) -> None:
    """A workflow with one partition per day. Ids start at 3, ties are unordered, the whole last day is tested."""
    import dask
    from dask import dataframe

    from components.workflows.nvtabular_quiet import Dataset, Workflow, ops

    kinds = {LABEL: "int8", **dict.fromkeys(NUMERICAL, "float64"), **dict.fromkeys(CATEGORICAL, "object")}

    def read(files: list[Path]) -> Dataset:
        texts = [str(path) for path in files]
        return Dataset(dataframe.read_csv(texts, sep="\t", names=_NAMES, dtype=kinds, blocksize=None), cpu=True)

    ids = list(CATEGORICAL) >> ops.Categorify(freq_threshold=THRESHOLD, out_path=str(out / "vocabulary"))
    filled = list(NUMERICAL) >> ops.FillMissing(-2) >> ops.Clip(min_value=-2)
    workflow = Workflow(ids + (filled >> ops.LambdaOp(lambda column: np.log(column + 3).astype("float32"))) + [LABEL])
    with dask.config.set(scheduler="synchronous"):
        workflow.fit(read(days[:-1]))
        for split, files in (("train", days[:-1]), ("test", days[-1:])):
            workflow.transform(read(files)).to_parquet(str(out / split), output_files=len(files))


# Implementations with the same samples as kfrec; NVTabular's differ.
EXACT = {"pandas": with_pandas, "polars": with_polars}
REFERENCES = {**EXACT, "nvtabular": with_nvtabular}

if __name__ == "__main__":
    name, raw, out = sys.argv[1:]
    Path(out).mkdir(parents=True)
    REFERENCES[name](sorted(Path(raw).glob("day_*")), Path(out))
