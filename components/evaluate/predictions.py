"""predictions.parquet: the score of each test sample, in the order of the records."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from components.errors import KfrecError
from components.tasks import Scores

FILENAME = "predictions.parquet"
_LABEL, _SCORE = "label", "score"


def write_predictions(path: Path, scores: Scores) -> None:
    """Writes columns label and score (float32), and the task's kept columns."""
    pq.write_table(pa.table({_LABEL: scores.labels, _SCORE: scores.values, **scores.kept}), path)


def read_predictions(path: Path) -> Scores:
    """Reads the file of :func:`write_predictions`.

    Raises:
        KfrecError: the file cannot be read.
    """
    try:
        table = pq.read_table(path)
        columns = {name: table[name].to_numpy() for name in table.column_names}
        return Scores(columns.pop(_LABEL), columns.pop(_SCORE), columns)
    except (OSError, KeyError, pa.ArrowInvalid) as error:
        raise KfrecError(f"{path}: not the predictions of an evaluation ({error}); evaluate again") from None
