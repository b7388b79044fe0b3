"""Runs side by side: the list of all, and two in detail, with a test of whether their models differ significantly."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from components import registry
from components.artifacts import Artifact, open_artifact
from components.artifacts.notes import read_notes
from components.errors import KfrecError
from components.feature_spec.side_tables import side_tables
from components.metrics import CONFIDENCE, Interval
from components.progress import duration
from components.tasks import RESAMPLES, TaskDefinition, difference_of, measured_with
from pipelines.defaults import OF_REFIT
from pipelines.runs.record import RUNNING, RunRecord
from pipelines.summary import published, warnings_of

# The artifacts before the model, and the displayed length of their digests.
_DATA = ("raw", "parquet", "tfrecord")
_SHOWN = 12
# Differing values that are named; --all has all.
_DIFFERING = 8
# Warnings that a row names; --json has all.
_NAMED = 2
_COLUMNS = ("run", "state", "model", "started", "duration", "metric", "warnings", "verdict")


@dataclass(frozen=True)
class Chance:
    """Whether two runs' primary metrics differ significantly.

    Attributes:
        verdict: the scores and why, in a sentence.
        difference: first run minus second; None if unknown.
        more_than_chance: None if unknown.
        better: name of the run that is better by more than chance; empty if neither is.
    """

    verdict: str
    difference: Interval | None = None
    more_than_chance: bool | None = None
    better: str = ""

    @property
    def headline(self) -> str:
        """The verdict in a few words."""
        if self.better:
            return f"{self.better} is better"
        return "which one is better cannot be said" if self.more_than_chance is None else "neither is better"


@dataclass(frozen=True)
class Comparison:
    """Two runs; each part maps a name to both values, None where a run lacks it.

    Attributes:
        data: digests and rows of the artifacts before the model.
        metrics: scalars of the evaluations and the trainings.
        chance: significance of the primary metric's difference.
    """

    names: tuple[str, str]
    parameters: dict[str, tuple[Any, Any]]
    data: dict[str, tuple[Any, Any]]
    metrics: dict[str, tuple[Any, Any]]
    chance: Chance

    def to_json(self) -> str:
        """For scripts; ``difference`` has estimate, and low and high, null without an interval."""
        interval = self.chance.difference
        body = {
            "runs": self.names,
            "parameters": self.parameters,
            "data": self.data,
            "metrics": self.metrics,
            "more_than_chance": self.chance.more_than_chance,
            "difference": None
            if interval is None
            else {name.removeprefix("_") or "estimate": value for name, value in interval.metrics("").items()},
            "verdict": self.chance.verdict,
        }
        return json.dumps(body, indent=2)

    def to_text(self, everything: bool = False) -> str:
        """For the terminal: the verdict and why, what differs in a line, and with ``everything`` all values."""
        parts = {"parameters": self.parameters, "data": self.data, "metrics": self.metrics}
        differ, rows = [], [("", *self.names)]
        for part, values in parts.items():
            other = {name: pair for name, pair in values.items() if pair[0] != pair[1]}
            differ.append(f"{part} ({_named(list(other))})" if other else f"no {part}")
            rows += [(part if other else f"{part}: no difference", "", ""), *_rows(other)]
        same = {name: pair for values in parts.values() for name, pair in values.items() if pair[0] == pair[1]}
        rows += [("the same", "", ""), *_rows(same)]
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
        lines = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}".rstrip() for a, b, c in rows]
        table = ["", *lines] if everything else ["--all shows all values"]
        return "\n".join([f"{self.chance.headline}: {self.chance.verdict}", f"differ: {'; '.join(differ)}", *table])


def compare(first: RunRecord, second: RunRecord) -> Comparison:
    """Compares two runs; neither needs to be finished.

    Raises:
        KfrecError: a file of one is damaged.
    """
    runs = (first, second)
    artifacts = [_artifacts(run) for run in runs]
    return Comparison(
        (first.name, second.name),
        _paired(*(_chosen(run) | run.parameters for run in runs)),
        _paired(*map(_data, artifacts)),
        _paired(*(_metrics(run, made) for run, made in zip(runs, artifacts, strict=True))),
        _chance(runs, artifacts),
    )


def primary_score(run: RunRecord) -> tuple[str, float] | None:
    """Label and value of the primary metric on the test split, or of feedback on served rows; None before."""
    if (event := run.steps.get("feedback")) is not None:
        metric = read_notes(Path(event["outputs"]["feedback"]) / "live.json").get("metric", {})
        return None if metric.get("score") is None else (f"live {metric['label']}", metric["score"])
    task = registry.task(run.pipeline.choices["task"]).at(run.parameters)
    event = run.steps.get("evaluate")
    if event is None:
        return None
    score = task.score_in(read_notes(Path(event["outputs"]["evaluation"]) / "metrics.json"))
    return None if score is None else (task.primary.label, score)


def _chosen(run: RunRecord) -> dict[str, str]:
    """The pipeline of a run, its model, and the data set and task, which may be the model's own."""
    choices = run.pipeline.choices
    return {"pipeline": run.pipeline.kind, "model": choices.pop("model_type"), **choices}


def _artifacts(run: RunRecord) -> dict[str, Artifact]:
    """The artifacts of the finished steps that are still there."""
    own = (event for step, event in run.steps.items() if not step.startswith(OF_REFIT))
    outputs = {name: Path(path) for event in own for name, path in event["outputs"].items()}
    return {name: open_artifact(path) for name, path in outputs.items() if path.is_dir()}


def _data(made: Mapping[str, Artifact]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for name in _DATA:
        if name in made:
            data[f"{name} digest"] = made[name].digest[:_SHOWN]
            data |= {f"{name} {_counted(what)}": count for what, count in made[name].rows.items()}
    return data


def _counted(what: str) -> str:
    """A count in words: "test rows" of the split test; what names its lines or rows already stays."""
    return what if re.search("lines|rows", what) else f"{what} rows"


def _metrics(run: RunRecord, made: Mapping[str, Artifact]) -> dict[str, Any]:
    """Scalars of the evaluation, and of the training's results."""
    notes: dict[str, Any] = {}
    if "model" in made:
        notes |= read_notes(made["model"].path / "training.json")
    if "evaluation" in made:
        notes |= read_notes(made["evaluation"].path / "metrics.json")
    return {name: value for name, value in notes.items() if isinstance(value, (int, float))}


def _chance(runs: tuple[RunRecord, RunRecord], artifacts: list[dict[str, Artifact]]) -> Chance:
    """Compares the runs' predictions by the paired bootstrap, if both are for the same samples."""
    tasks = [run.pipeline.choices["task"] for run in runs]
    if tasks[0] != tasks[1]:
        return _unknown(f"the runs have different tasks, {tasks[0]} and {tasks[1]}")
    for run, made in zip(runs, artifacts, strict=True):
        if "evaluation" not in made or "tfrecord" not in made:
            return _unknown(f"{run.name} ({run.state_now()}) has no evaluation")
    if _test_files(artifacts[0]["tfrecord"]) != _test_files(artifacts[1]["tfrecord"]):
        return _unknown("the runs were evaluated on different test samples")
    evaluations = artifacts[0]["evaluation"], artifacts[1]["evaluation"]
    tables = side_tables(artifacts[0]["tfrecord"].path)
    return _measured(registry.task(tasks[0]).at(runs[0].parameters), runs, evaluations, tables)


def _measured(
    task: TaskDefinition,
    runs: tuple[RunRecord, RunRecord],
    evaluations: tuple[Artifact, Artifact],
    tables: Mapping[str, Path],
) -> Chance:
    """Compares as the gate of the first run does, with its parameters."""
    from components.scoring.predictions import FILENAME, read_predictions

    (first, second), gate = evaluations, runs[0].parameters
    ours, theirs = (read_predictions(each.file(FILENAME), tables) for each in (first, second))
    if not _are_equal(ours.targets, theirs.targets):
        raise KfrecError(f"{second.file(FILENAME)}: has other labels than {first.file(FILENAME)}; evaluate again")
    parameters = measured_with(task, first.parameters)
    difference = difference_of(
        task,
        ours,
        theirs,
        parameters,
        samples=gate.get("bootstrap_samples", RESAMPLES),
        confidence=gate.get("confidence", CONFIDENCE),
    )
    difference_text = (
        f"test {task.primary.label} {difference.score:.4f} against {difference.rival_score:.4f} on the same "
        f"{ours.rows:,} samples: {difference}"
    )
    if not difference.is_finite:
        return _unknown(f"{difference_text}, which is not finite")
    verdict = f"no more than chance, because {difference.doubt}" if difference.doubt else "more than chance"
    better = "" if difference.doubt else runs[0 if difference.gain.low > 0 else 1].name
    return Chance(f"{difference_text}, which is {verdict}", difference.interval, not difference.doubt, better)


def _are_equal(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> bool:
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def _unknown(why: str) -> Chance:
    return Chance(why)


def _test_files(records: Artifact) -> list[tuple[str, int, str]]:
    return [(each.path, each.size, each.crc32c) for each in records.files if each.path.startswith("test/")]


def _paired(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {name: (first.get(name), second.get(name)) for name in {**first, **second}}


def _rows(values: Mapping[str, tuple[Any, Any]]) -> list[tuple[str, str, str]]:
    return [(f"  {name}", *_both(*pair)) for name, pair in values.items()]


def _both(first: Any, second: Any) -> tuple[str, str]:
    """Both values in words; of different ones that are equal when rounded, all digits."""
    shown = _shown(first), _shown(second)
    return shown if first == second or shown[0] != shown[1] else (str(first), str(second))


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value) or "''"


def listed(run: RunRecord, aliases: Mapping[tuple[str, str], Mapping[int, str]]) -> dict[str, Any]:
    """A run as a row; of a running or killed run, ``seconds`` end at its last finished step.

    Args:
        aliases: see ``pipelines.runs.registered.aliases``; a version that has none any more is a former champion or
            challenger.
    """
    state, score = run.state_now(), primary_score(run)
    registered = published(run.summary())
    key = (run.tracking_uri, registered.get("model", ""))
    if registered:
        registered["alias"] = aliases[key].get(registered["version"], f"former {registered['alias']}")
    return {
        "run": run.name,
        "state": state,
        "pipeline": run.pipeline.kind,
        "model": run.pipeline.model,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(run.started)),
        "seconds": round(run.seconds, 1),
        "metric": score[0] if score else None,
        "score": score[1] if score else None,
        "registered": registered.get("model"),
        "version": registered.get("version"),
        "alias": registered.get("alias"),
        # A refit reads the data again, and warns again.
        "warnings": list(dict.fromkeys(warning["about"] for warning in warnings_of(run.steps))),
        "message": run.message,
        "folder": str(run.folder),
    }


def table(runs: Sequence[Mapping[str, Any]]) -> str:
    """One line per run, oldest first."""
    rows = [_COLUMNS, *map(_row, runs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _row(run: Mapping[str, Any]) -> tuple[str, ...]:
    verdict = (
        f"version {run['version']}, {run['alias']}" if run["alias"] else run["message"].partition("; resume with")[0]
    )
    return (
        run["run"],
        run["state"],
        run["model"],
        run["started"][:16].replace("T", " "),
        "" if run["state"] == RUNNING else duration(run["seconds"]),
        "" if run["score"] is None else f"{run['metric']} {run['score']:.4f}",
        _shortened(run["warnings"]),
        verdict,
    )


def _shortened(warnings: Sequence[str]) -> str:
    """Number and names of warnings, such as "3: psi reviews rating, new reviews user, …"."""
    more = ["…"] if len(warnings) > _NAMED else []
    return f"{len(warnings)}: {', '.join([*warnings[:_NAMED], *more])}" if warnings else ""


def _named(names: Sequence[str]) -> str:
    """Names, such as "lr, epochs, and 3 more"."""
    more = len(names) - _DIFFERING
    return ", ".join([*names[:_DIFFERING], *([f"and {more} more"] if more > 0 else [])])
