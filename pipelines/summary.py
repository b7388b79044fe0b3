"""summary.json: the results of a finished local run, for scripts and people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from components.tasks import Metric


def summarise(
    run_id: str,
    parameters: Mapping[str, Any],
    finished: Mapping[str, Mapping[str, Any]],
    tracking_uri: str,
    look: str,
    metrics: Sequence[Metric],
) -> dict[str, Any]:
    """Collects a run's results from its steps' events and artifacts.

    Args:
        run_id: the pipeline run.
        parameters: every pipeline parameter of the run.
        finished: step name to its "finished" event (seconds, rows, counts, outputs).
        tracking_uri: where MLflow keeps the run.
        look: the command that shows the run in MLflow.
        metrics: of the task.
    """
    outputs = {name: path for event in finished.values() for name, path in event["outputs"].items()}
    training = _read(outputs["model"], "training.json")
    evaluation = _read(outputs["evaluation"], "metrics.json")
    registration = _read(outputs["registration"], "registration.json")
    return {
        "run_id": run_id,
        "parameters": dict(parameters),
        "steps": {
            name: {"seconds": event["seconds"], "rows": event["rows"], "counts": event["counts"]}
            for name, event in finished.items()
        },
        "metrics": {
            **{f"test_{metric.name}": evaluation[f"test_{metric.name}"] for metric in metrics},
            **{name: training[name] for name in (f"train_{metric.name}" for metric in metrics) if name in training},
            "train_samples_per_second": training["train_samples_per_second"],
            "time_to_train": training["time_to_train"],
        },
        "registered": {
            "model": registration["registered_model"],
            "version": registration["version"],
            "alias": registration["alias"],
            "reason": registration["reason"],
        },
        "artifacts": {**outputs, "report": str(Path(outputs["evaluation"]) / "report.html")},
        "mlflow": {"tracking_uri": tracking_uri, "run_id": registration["run_id"]},
        "look": look,
    }


def _read(folder: str, name: str) -> dict[str, Any]:
    return json.loads((Path(folder) / name).read_text())
