"""The feedback step: served rows and outcomes in, training rows with labels and the model's live quality out."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from components.artifacts import publishing
from components.checks.limits import PSI, Limits
from components.errors import KfrecError
from components.feedback.live import DRIFT, Live, Models, live, task_of
from components.feedback.outcomes import Counts, attribute, read_outcomes
from components.feedback.page import metric_of, page
from components.feedback.rows import LABEL, Group, groups_of, is_raw, served_rows, write_training_rows
from components.feedback.shade import Shaded, challengers_of, is_due, shaded
from components.inference.files import seconds_of
from components.inference.model import is_registered, named_model
from components.progress import warn
from components.steps.catalog import FeedbackParameters
from components.steps.recorded import recorded
from components.tracking.champion import champion_of
from components.tracking.run import TrackedRun, nested_run, tracked_run
from components.tracking.standing import champion_before, promote, roll_back
from components.tracking.store import connect

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

LIVE, REPORT = "live.json", "report.html"
# Tag of the MLflow run of a day: the model and the day.
_DAY = "kfrec.live"


def run(parameters: FeedbackParameters, *, feedback: Path) -> Mapping[str, Any]:
    """Joins served rows with outcomes and writes the ``feedback`` folder.

    Returns:
        ``rows`` that are labelled, rows ``served``, ``matured`` and ``waiting``; and the live quality in a line, as
        ``summary``.

    Raises:
        KfrecError: there are no served rows of the model, or a table or the model cannot be read.
    """
    if not parameters.served.strip():
        raise KfrecError("parameter served is empty; give the folder or URI that kfrec serve --log writes to")
    now = seconds_of(parameters.known_until, "parameter known_until") if parameters.known_until else time.time()
    rows = served_rows(parameters.served, now, parameters.served_days)
    registered = is_registered(parameters.model_version)
    with (
        named_model(parameters.model_version) as named,
        closing(Models(named, registered)) as models,
        publishing(feedback, step="feedback", parameters=recorded(parameters)) as staging,
        tracked_run(parameters.experiment, parameters.run_id, f"feedback of {models.name}") as tracked,
    ):
        task, current = task_of(named.raw), named.version if registered else ""
        outcomes = read_outcomes(parameters.outcomes, staging.scratch)
        labels, counts = attribute(
            rows,
            outcomes,
            window=parameters.attribution_window,
            wait=parameters.label_wait,
            now=int(now * 1e6),
        )
        rows[LABEL] = labels
        own = rows[rows["model"].str.extract(r"([^/]*)/*$")[0] == models.name]
        if not len(own):
            raise KfrecError(
                f"{parameters.served}: no rows of {models.name} in the last {parameters.served_days} days, of "
                f"{len(rows):,} rows{_of_others(rows)}; name the model that was served, or more served_days"
            )
        groups = groups_of(own)
        size = parameters.evaluation_batch_size
        days = [live(group, models.of(group.version), named.raw, task, size) for group in groups]
        judged = _whole([group for group in groups if group.version == current])
        total = live(judged, None, named.raw, task, size) if judged else None
        drifted = _drifted(total)
        _warn(days, drifted)
        labelled = own[own[LABEL].notna() & own["rank"].isna()]
        written = write_training_rows(labelled, named.raw, staging.path)
        metric, label = metric_of(task, total)
        score = total.metrics.get(f"live_{metric}") if total else None
        compared: list[tuple[ModelVersion, Shaded]] = []
        earlier: list[tuple[ModelVersion, Shaded]] = []
        if judged and registered:
            challengers = challengers_of(tracked.client, models.name, current)
            scored = judged.matured[judged.matured["probability"].notna()]
            compared = list(shaded(scored, challengers, models, task, size))
            if parameters.roll_back and (before := _before(tracked.client, models.name)):
                earlier = list(shaded(scored, [before], models, task, size))
        challenged = " ".join(str(found) for _, found in (*compared, *earlier))
        body = {
            "model": models.name,
            "version": current,
            "metric": {"name": metric, "label": label, "score": score},
            "counts": asdict(counts),
            "total": total.metrics if total else {},
            "days": [{"version": each.version, "day": each.day, **each.metrics} for each in days],
            "drift": drifted,
            "challengers": [found.body for _, found in compared],
            "champion_before": [found.body for _, found in earlier],
            "raw": is_raw(named.raw),
        }
        (staging.path / LIVE).write_text(json.dumps(body, indent=2, allow_nan=False) + "\n")
        html = page(models.name, task, days, total, drifted, challenged, counts, parameters.run_id or tracked.id)
        (staging.path / REPORT).write_text(html)
        staging.rows |= {"rows": written, "served": len(own), "matured": int(own[LABEL].notna().sum())}
        staging.rows["waiting"] = len(own) - staging.rows["matured"]
        _track(tracked, parameters, models.name, days, counts, staging.path)
    lines = [
        f"{models.name}{f' version {current}' if current else ''}: {_headline(total, metric, label)}",
        _in_words(counts),
    ]
    lines += [str(found).rstrip(".") for _, found in (*compared, *earlier)]
    if moved := _returned(models.name, current, earlier) or _promoted(models.name, current, compared):
        lines.append(moved)
    metrics = total.metrics if total else {}
    return {**staging.rows, "metrics": metrics, "summary": "; ".join([*lines, f"report {feedback / REPORT}"])}


def _before(client: MlflowClient, name: str) -> ModelVersion | None:
    """The champion before the champion; None if nothing says which it was, which is told."""
    champion = champion_of(client, name)
    try:
        return champion_before(client, champion) if champion else None
    except KfrecError as error:
        print(f"roll_back has no version to go back to: {error}", flush=True)
        return None


def _returned(name: str, champion: str, earlier: Sequence[tuple[ModelVersion, Shaded]]) -> str:
    """Makes the champion before the champion again if it is better, unless the champion has changed; tells of it."""
    client = connect()
    for held, found in earlier:
        now = champion_of(client, name)
        if found.is_better and now is not None and str(now.version) == champion:
            return roll_back(client, name, str(held.version), "the feedback step", str(found))
    return ""


def _promoted(name: str, champion: str, compared: Sequence[tuple[ModelVersion, Shaded]]) -> str:
    """Makes the newest version that is due the champion, unless another one has become it since; tells of it."""
    due = [(held, found) for held, found in compared if is_due(held, found)]
    if not due:
        return ""
    client, (held, found) = connect(), due[-1]
    now = champion_of(client, name)
    if now is None or str(now.version) != champion:
        return ""
    return promote(client, name, str(held.version), "the feedback step", str(found))


def _of_others(rows: pd.DataFrame) -> str:
    others = ", ".join(sorted(set(rows["model"])))
    return f" of {others}" if others else ""


def _whole(groups: Sequence[Group]) -> Group | None:
    """All days of a version as one."""
    if not groups:
        return None
    parts = [pd.concat([getattr(group, name) for group in groups]) for name in ("scored", "listed")]
    return Group(groups[0].version, "", *parts)


def _drifted(total: Live | None) -> dict[str, float]:
    """Served column to its population stability index."""
    metrics = total.metrics if total else {}
    return {name.removeprefix(DRIFT): value for name, value in metrics.items() if name.startswith(DRIFT)}


def _warn(days: Sequence[Live], drifted: Mapping[str, float]) -> None:
    for each in days:
        if share := each.metrics.get("skew_share"):
            which = f"version {each.version}" if each.version else "the model"
            warn(
                "feedback",
                f"skew {each.version}".rstrip(),
                f"{which}, {each.day}: {share:.2%} of the logged scores are not what it gives "
                "for the logged columns; compare the image and the processor that served it",
            )
    limit = Limits().of(PSI)
    for name, value in drifted.items():
        if value > limit:
            warn("feedback", f"psi {name}", f"served column {name}: psi {value:.3f} against the model's data")


def _headline(total: Live | None, metric: str, label: str) -> str:
    value = total.metrics.get(f"live_{metric}") if total else None
    if total is None or value is None:
        return f"no live {label} yet"
    low, high = (total.metrics.get(f"live_{metric}_{end}") for end in ("low", "high"))
    ends = f" (95 % interval {low:.4f} to {high:.4f})" if low is not None and high is not None else ""
    return f"live {label} {value:.4f}{ends}"


def _in_words(counts: Counts) -> str:
    return (
        f"{counts.matured:,} of {counts.served:,} rows matured, {counts.duplicates:,} duplicate, {counts.late:,} late "
        f"and {counts.unmatched:,} unmatched of {counts.outcomes:,} outcomes"
    )


def _track(tracked: TrackedRun, parameters: Any, name: str, days: Sequence[Live], counts: Counts, folder: Path) -> None:
    """Logs a nested run for each day, with the metrics of each version, and the report with the whole."""
    tracked.log_step(parameters, "feedback")
    tracked.log_metrics({f"feedback_{key}": value for key, value in asdict(counts).items()})
    for file in (LIVE, REPORT):
        tracked.log_artifact(folder / file, "feedback")
    by_day: dict[str, dict[str, float]] = defaultdict(dict)
    for each in days:
        by_day[each.day] |= {
            f"version_{each.version or 'folder'}/{key}": value
            for key, value in each.metrics.items()
            if isinstance(value, (int, float))
        }
    for day, metrics in by_day.items():
        with nested_run(tracked, f"live {name} {day}", {_DAY: f"{name} {day}"}) as of_day:
            of_day.log_metrics(metrics)
