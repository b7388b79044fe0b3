"""predictions.parquet: the score of each test sample, in the order of the records."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from components.tasks import Scores


def write_predictions(path: Path, scores: Scores) -> None:
    """Writes columns label and score (float32), and those that the task keeps."""
    pq.write_table(pa.table({"label": scores.labels, "score": scores.values, **scores.kept}), path)
