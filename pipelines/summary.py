"""summary.json: the results of a finished local run, for scripts and people."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from components import registry
from components.artifacts import Artifact, open_artifact
from components.artifacts.notes import read_notes
from components.secrets import without_password, without_passwords
from components.steps.catalog import STEPS
from pipelines.defaults import OF_REFIT, PIPELINES, TRAINING, Pipeline
from pipelines.screen import WARNINGS


def summarise(
    run_id: str,
    pipeline: Pipeline,
    parameters: Mapping[str, Any],
    finished: Mapping[str, Mapping[str, Any]],
    tracking_uri: str,
    look: str,
) -> dict[str, Any]:
    """Collects a run's results from its steps' events and artifacts.

    Args:
        finished: step name to its "finished" event (seconds, rows, counts, outputs).
    """
    task = registry.task(pipeline.choices["task"])
    metrics = task.metrics
    of_refit = refit_outputs(finished)
    own = {name: event for name, event in finished.items() if not name.startswith(OF_REFIT)}
    outputs = {name: path for event in own.values() for name, path in event["outputs"].items()}
    training = read_notes(Path(outputs["model"]) / "training.json")
    evaluation = read_notes(Path(outputs["evaluation"]) / "metrics.json")
    registration = read_notes(Path(outputs["registration"]) / "registration.json")
    return {
        "run_id": run_id,
        "pipeline": {"model": pipeline.model, "dataset": pipeline.dataset, "task": pipeline.task},
        "parameters": without_passwords(dict(parameters)),
        "steps": {
            name: {"seconds": event["seconds"], "rows": event["rows"], "counts": event["counts"]}
            for name, event in finished.items()
        },
        "metrics": {
            **{f"test_{metric.name}": evaluation[f"test_{metric.name}"] for metric in metrics},
            **{name: evaluation[name] for name in ("test_positives",) if name in evaluation},
            **{name: training[name] for name in (f"train_{metric.name}" for metric in metrics) if name in training},
            "train_samples_per_second": training["train_samples_per_second"],
            "time_to_train": training["time_to_train"],
        },
        "remarks": list(task.remarks(evaluation)),
        "warnings": warnings_of(own),
        "registered": {
            "model": registration["registered_model"],
            "version": registration["version"],
            "alias": registration["alias"],
            "reason": registration["reason"],
        },
        "refit": _refit(of_refit),
        "pair": registration.get("pair", ""),
        "artifacts": {
            **outputs,
            **{refit_name(name): path for name, path in of_refit.items()},
            "report": str(Path(outputs["evaluation"]) / "report.html"),
        },
        "mlflow": {"tracking_uri": without_password(tracking_uri), "run_id": registration["run_id"]},
        # For a repetition: its seed, and the digests to compare with.
        "seed": training["seed"],
        "digests": digests_of(own),
        "look": look,
    }


def refit_name(output: str) -> str:
    """The name of a refit's output beside those of its run, such as ``refit_model``."""
    return f"{OF_REFIT.strip()}_{output}"


def refit_outputs(finished: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The outputs of the refit, by name; empty if the run has none."""
    events = (event for name, event in finished.items() if name.startswith(OF_REFIT))
    return {name: path for event in events for name, path in event["outputs"].items()}


def published(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The registered model, version and alias that a run ended with, and why; empty before."""
    return {**summary.get("registered", {}), **summary.get("refit", {})}


def _refit(outputs: Mapping[str, str]) -> dict[str, Any]:
    """What is published after a refit, and why; empty without one."""
    if "registration" not in outputs:
        return {}
    registration = read_notes(Path(outputs["registration"]) / "registration.json")
    return {name: registration[name] for name in ("version", "alias", "reason")}


def warnings_of(finished: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """The warnings of finished steps, such as data checks above their limits: step, a few words, and a line each."""
    return [{"step": step, **warning} for step, event in finished.items() for warning in event.get(WARNINGS, ())]


def digests_of(finished: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Output name to the digest of its reproducible files, see ``Step``."""
    return {
        name: repeatable(open_artifact(path), STEPS[step].varying).digest
        for step, event in finished.items()
        for name, path in event["outputs"].items()
        if step in PIPELINES[TRAINING]
    }


def repeatable(artifact: Artifact, varying: Sequence[str]) -> Artifact:
    """The artifact without the files that match ``varying``."""
    files = (entry for entry in artifact.files if not any(fnmatchcase(entry.path, pattern) for pattern in varying))
    return dataclasses.replace(artifact, files=tuple(files))
