"""Metrics that need side tables receive them before the first batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from components import registry
from components.train.loop.ranks import Alone
from components.train.loop.validation import Scorer


class Doubling(tf.Module):
    """Doubles the ids that it reads."""

    serving_features = ("ids",)
    tables: Mapping[str, Any] = {}

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        return {"twice": 2 * features["ids"]}


class Lines(tf.Module):
    """Sums outputs, and counts the lines of a file beside the samples."""

    def __init__(self) -> None:
        super().__init__()
        self.sum, self.lines = tf.Variable(0, dtype=tf.int32), 0

    def read_tables(self, tables: Mapping[str, Path]) -> None:
        self.lines = len(tables["lines"].read_text().splitlines())

    def update(self, targets: Any, outputs: Mapping[str, tf.Tensor], kept: Any) -> None:
        self.sum.assign_add(tf.reduce_sum(outputs["twice"]))

    def reset(self) -> None:
        self.sum.assign(0)

    def totals(self, ranks: Any) -> list[tf.Tensor]:
        return [tf.cast(self.sum, tf.float64)]

    def load(self, totals: Sequence[np.ndarray]) -> None: ...

    def result(self, totals: Sequence[np.ndarray]) -> dict[str, float]:
        return {"a_line": float(totals[0]) / self.lines}


def test_streaming_metrics_read_side_tables(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    task = replace(registry.task("click"), streaming=lambda training, parameters: Lines())
    signature, tables = {"ids": tf.TensorSpec([None], tf.int32)}, {"lines": tmp_path / "lines.txt"}
    scorer = Scorer(Doubling(), task, Alone(), signature, {}, {}, None, tables=tables)
    assert scorer.score([{"ids": tf.constant([1, 2, 3])}, {"ids": tf.constant([4])}]) == {"a_line": 10.0}
