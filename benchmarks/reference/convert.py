"""Parquet to TFRecord, one tf.train.Example at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import tensorflow as tf


def convert(files: Sequence[Path], output: Path) -> int:
    """Writes every row of the parquet ``files`` as one Example of int64 lists; returns the number of rows."""
    rows = 0
    with tf.io.TFRecordWriter(str(output)) as writer:
        for row in _rows(files):
            writer.write(example(row).SerializeToString())
            rows += 1
    return rows


def example(row: dict[str, Any]) -> tf.train.Example:
    """A row as an Example."""
    lists = {name: value if isinstance(value, list) else [value] for name, value in row.items()}
    features = {
        name: tf.train.Feature(int64_list=tf.train.Int64List(value=[int(v) for v in values]))
        for name, values in lists.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features))


def _rows(files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(1024):
            yield from batch.to_pylist()
