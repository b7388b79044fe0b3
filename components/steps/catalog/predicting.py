"""Parameters of the step that uses a model."""

from __future__ import annotations

from dataclasses import dataclass

from components.parameters import param
from components.shared_parameters import REGISTERED_MODEL


@dataclass(frozen=True)
class PredictParameters:
    """Which rows are scored, and with which model."""

    model_version: str = param(
        f"{REGISTERED_MODEL.default}@champion",
        "Model: name@alias or name/version of a registered one, or the folder or URI of an output of the train step",
    )
    rows: str = param(
        "",
        "Folder, gs://, s3:// or minio:// prefix whose *.parquet, *.csv and *.jsonl files are scored, or one such file",
    )
    beside: bool = param(True, "Also write the scores beside the rows, such as day.scores.csv beside day.csv")
    prediction_batch_size: int = param(4096, "Rows scored at a time", unit="rows", at_least=1)
