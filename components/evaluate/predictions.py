"""predictions.parquet: what the model said about each test sample, in the order of the records."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from components.scoring import Scores


def write_predictions(path: Path, scores: Scores) -> None:
    """Writes columns label (int8) and score (float32), and user and history_length where the data has them."""
    columns = {
        "label": scores.labels,
        "score": scores.probabilities,
        "user": scores.users,
        "history_length": scores.history_lengths,
    }
    pq.write_table(pa.table({name: values for name, values in columns.items() if values is not None}), path)
