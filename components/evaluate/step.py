"""The evaluate step: TFRecord test split and model in, metrics, curves and report out."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from components import registry
from components.artifacts import Artifact, publishing
from components.artifacts.notes import read_notes
from components.checks import PROFILE
from components.checks.profile import Profile, read_profile
from components.checks.profiler import format_time
from components.datasets.raw_rows import CANDIDATE
from components.errors import KfrecError
from components.feature_spec import Channel, FeatureSpec, load_feature_spec
from components.feature_spec.living import newly_admitted
from components.feature_spec.spec import TEST
from components.metrics import CONFIDENCE
from components.models.definition import Explained
from components.progress import warn
from components.report import Section
from components.report.page import Facts, render
from components.scoring import (
    ExportedModel,
    explained,
    load_model,
    open_test_split,
    open_trained,
    raw_model,
    score_controls,
    score_split,
    scoring_translation,
)
from components.scoring.predictions import raw_ids, write_predictions
from components.scoring.ranked_users import rank_test_users
from components.steps.catalog import EvaluateParameters
from components.steps.recorded import recorded
from components.tasks import Measured, Scores, TaskDefinition, missing_column
from components.tasks.controls import NO_INTERVAL
from components.tasks.report import ADMITTED
from components.tracking.run import TrackedRun, tracked_run
from components.tracking.trained import (
    complete_training,
    data_name,
    log_extensions,
    log_lineage,
    log_profile,
    log_splits,
    metric_name,
)

_AT_ONCE = 65_536  # samples


def run(parameters: EvaluateParameters, *, tfrecord: Path, model: Path, evaluation: Path) -> Mapping[str, Any]:
    """Scores the test split in ``tfrecord`` with ``model`` and writes the ``evaluation`` folder.

    Returns:
        ``test``: samples scored; ``summary``: the main metrics in a line.

    Raises:
        KfrecError: an input is unfinished, the inputs do not match, or the test split lacks a class.
    """
    inputs = {"tfrecord": open_test_split(tfrecord), "model": open_trained(model)}
    given, tfrecord, model = tfrecord, inputs["tfrecord"].path, inputs["model"].path
    title = f"evaluation of {data_name(inputs['tfrecord'])}"
    with tracked_run(parameters.experiment, parameters.run_id, title) as tracked:
        if parameters.run_id:  # else the training has a run of its own
            complete_training(tracked, inputs["model"], inputs["tfrecord"])
        log_lineage(tracked, inputs["tfrecord"])
        log_splits(tracked, inputs["tfrecord"], splits=["test"])
        profile = read_profile(tfrecord / PROFILE)
        if profile is not None:
            log_profile(tracked, inputs["tfrecord"], profile)
        tracked.log_step(parameters, "evaluate")
        log_extensions(tracked, recorded(parameters))
        task = registry.task(parameters.task).at(vars(parameters))
        exported = load_model(model)
        spec = load_feature_spec(tfrecord, exported.parameters.get("feature_spec", "feature_spec.yaml"))
        if lacking := missing_column(spec, task.kept):
            raise KfrecError(lacking)
        lookups = scoring_translation(spec, exported)
        scores = score_split(spec, exported, task.kept, batch_size=parameters.evaluation_batch_size, lookups=lookups)
        scores = replace(scores, kept={**scores.kept, **_admitted_rows(spec)})
        task.require(scores, tfrecord)
        controls = task.controls(spec, parameters)
        if controls is not None:
            controlled = score_controls(
                controls,
                spec,
                exported,
                scores,
                keep=task.kept,
                tfrecord=given,
                batch_size=parameters.evaluation_batch_size,
                lookups=lookups,
            )
            scores = replace(scores, controlled=controlled)
        measured = _with_best(measured_by(task, scores, parameters), spec, task)
        measured.metrics.update(_ranking_metrics(spec, exported, task, parameters, lookups))
        about = explained(spec, exported, lookups)
        facts = _facts(spec, exported, inputs, parameters.run_id or tracked.id, profile, about)
        with publishing(evaluation, step="evaluate", inputs=inputs, parameters=recorded(parameters)) as staging:
            _write_json(staging.path / "metrics.json", measured.metrics)
            for name, curve in measured.curves.items():
                _write_json(staging.path / f"{name}.json", curve)
            write_predictions(staging.path / "predictions.parquet", scores, raw_ids(spec))
            (staging.path / "report.html").write_text(render(task.story(measured), facts, task.metrics))
            staging.rows["test"] = scores.rows
        _track(tracked, measured, evaluation)
    return {**staging.rows, "metrics": measured.metrics, "summary": _headline(measured.metrics, task, evaluation)}


def show(folders: Mapping[str, Path], arguments: Mapping[str, Any]) -> None:
    """Fills the outputs that the KFP UI renders.

    Args:
        arguments: of the component function, by name: ``metrics``, an ``Output[Metrics]``; ``classification_metrics``,
            an ``Output[ClassificationMetrics]``, whose curve has at most 200 points and finite thresholds, because it
            travels inside the artifact's metadata; and ``report``, an ``Output[HTML]``.
    """
    folder, report = folders["evaluation"], Path(arguments["report"].path)
    found = json.loads((folder / "metrics.json").read_text())
    for name, value in found.items():
        if isinstance(value, (int, float)):
            arguments["metrics"].log_metric(name, value)
    classification = arguments["classification_metrics"]
    if (folder / "roc.json").is_file():
        roc = json.loads((folder / "roc.json").read_text())
        classification.log_roc_curve(roc["false_positive_rate"], roc["true_positive_rate"], roc["threshold"])
    if confusion := found.get("confusion"):
        classification.log_confusion_matrix(confusion["classes"], confusion["matrix"])
    report.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / "report.html", report)


def measured_by(task: TaskDefinition, scores: Scores, parameters: Any) -> Measured:
    """The task's measurements.

    Raises:
        KfrecError: the task returns something else, lacks one of its metrics, or returns what is not finite.
    """
    measured = task.measure(scores, parameters)
    what = f"task {task.name}: measure returns"
    if not isinstance(measured, Measured):
        raise KfrecError(f"{what} a {type(measured).__name__}; return a Measured")
    for name in (f"test_{metric.name}" for metric in task.metrics):
        value = measured.metrics.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise KfrecError(
                f"{what} {name}={value!r}, where its metrics promise a finite number; correct it, or refuse scores "
                "without one in require"
            )
    for place, value in _numbers({"metrics": measured.metrics, **measured.curves}):
        if not math.isfinite(value):
            raise KfrecError(f"{what} {value} in {place}; leave an undefined number out, or make it None")
    return measured


def _ranking_metrics(
    spec: FeatureSpec, model: ExportedModel, task: TaskDefinition, parameters: Any, lookups: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """Metrics of ranking the whole catalogue; empty if the task has none, or the data no histories."""
    measure = task.catalogue
    has_histories = all(spec.channels.get(name) for name in (Channel.TARGET, Channel.POSITIVE))
    if measure is None or not has_histories or not measure.users(parameters):
        return {}
    try:
        raw = raw_model(model)
    except KfrecError as error:
        warn("evaluate", "no ranking of all items", f"no ranking of all items: {error}")
        return {}
    if raw.column_of(CANDIDATE) is None:
        return {}
    ranked = rank_test_users(
        spec,
        raw,
        lookups,
        users=measure.users(parameters),
        scores=measure.scores(parameters),
        top=measure.top(parameters),
    )
    return {} if ranked is None else measure.measure(ranked)


def _numbers(body: Any, place: str = "") -> Iterator[tuple[str, float]]:
    """The floats of a nested body, and where they are."""
    if isinstance(body, Mapping):
        for name, value in body.items():
            yield from _numbers(value, f"{place}.{name}" if place else str(name))
    elif isinstance(body, (list, tuple)):
        for value in body:
            yield from _numbers(value, place)
    elif isinstance(body, float):
        yield place, body


def _with_best(measured: Measured, spec: FeatureSpec, task: TaskDefinition) -> Measured:
    """Adds ``test_best_<metric>`` where the data's generator knows the best possible value."""
    best = spec.best_metrics
    known = {f"test_best_{metric.name}": best[metric.name] for metric in task.metrics if metric.name in best}
    return replace(measured, metrics={**measured.metrics, **known})


def _facts(
    spec: FeatureSpec,
    model: ExportedModel,
    inputs: Mapping[str, Artifact],
    run_id: str,
    profile: Profile | None,
    about: Explained | None,
) -> Facts:
    data = {f"{name} ids": f"{feature.cardinality:,}" for name, feature in spec.features.items() if feature.cardinality}
    trained_rows = spec.metadata.get("train", {}).get("rows")
    if trained_rows is not None:
        data["train rows"] = f"{trained_rows:,}"
    data |= {name.replace("_", " "): ", ".join(kinds) for name, kinds in spec.kinds.items()}
    encoding = spec.metadata.get("encoding") or {}
    data |= {f"values {name}": f"{encoding[name]:,}" for name in ("admitted", "evicted") if name in encoding}
    if "unknown_share" in encoding:
        data["unknown in the test split"] = f"{encoding['unknown_share']:.2%} of the values"
    for reason, number in encoding.get("left_out", {}).items():
        if number:
            data[f"left out of the test, {reason.replace('_', ' ')}"] = f"{number:,} last events of users"
    for name, what in (("train_end", "trained on events before"), ("test_begin", "judged on events from")):
        if name in spec.cuts:
            data[what] = format_time(spec.cuts[name] / 1e9)
    origins = {name: artifact.digest for name, artifact in inputs.items()}
    origins |= {f"{name} ← {of}": digest for name, artifact in inputs.items() for of, digest in artifact.inputs.items()}
    name = str(model.parameters.get("model_type", ""))
    is_installed = name in registry.names(registry.MODELS)
    return Facts(
        title=registry.model(name).title if is_installed else name or "model",
        run=run_id,
        parameters=model.parameters,
        training=read_notes(model.folder / "training.json"),
        data=data,
        origins=origins,
        profile=profile,
        explanation=_explanation(name, about) if about and is_installed else (),
    )


def _explanation(model_type: str, about: Explained) -> Sequence[Section]:
    """The model's own sections."""
    sections = registry.model(model_type).explanation(about)
    if not isinstance(sections, (list, tuple)) or not all(isinstance(section, Section) for section in sections):
        raise KfrecError(f"model {model_type}: explanation returns {sections!r:.100}; return a list of Section")
    return sections


def _track(run: TrackedRun, measured: Measured, evaluation: Path) -> None:
    """Logs every scalar metric, and metrics by step as a series."""
    run.log_metrics({name: value for name, value in measured.metrics.items() if isinstance(value, (int, float))})
    run.log_series([(step, {metric_name(name): value}) for name, points in measured.series.items()
                    for step, value in points])  # fmt: skip
    for name in ("report.html", "metrics.json"):
        run.log_artifact(evaluation / name, "evaluation")


def _headline(metrics: Mapping[str, Any], task: TaskDefinition, evaluation: Path) -> str:
    shown = []
    for metric in task.metrics:
        name = f"test_{metric.name}"
        shown.append(f"test {metric.label} {metrics[name]:.4f}")
        if f"{name}_low" in metrics:
            low, high = metrics[f"{name}_low"], metrics[f"{name}_high"]
            ends = NO_INTERVAL if low is None else f"{100 * CONFIDENCE:g} % interval {low:.4f} to {high:.4f}"
            shown[-1] += f" ({ends})"
    if "test_positives" in metrics:
        shown.append(f"{metrics['test_positives']:,} positives")
    remarks = "".join(f"; {remark}" for remark in task.remarks(metrics))
    return f"{', '.join(shown)}{remarks}; report {evaluation / 'report.html'}"


def _write_json(path: Path, body: Any) -> None:
    path.write_text(json.dumps(body, indent=2, allow_nan=False) + "\n")


def _admitted_rows(spec: FeatureSpec) -> dict[str, np.ndarray]:
    """Which test samples have an id that got its row in the last night, int8 ``[n]``; empty unless a vocabulary grew.

    See ``components.feature_spec.living``. Ids in a list, such as a history, do not count: most lists have a new one.

    Raises:
        KfrecError: a record or a vocabulary's counters are damaged.
    """
    from components.records import Records  # lazy: imports Numba

    held = [name for name in spec.sources[TEST].features if spec.features[name].length is None]
    new = {name: ids for name, ids in newly_admitted(spec).items() if name in held}
    if not new:
        return {}

    def has_new(batch: dict[str, np.ndarray]) -> np.ndarray:
        return np.logical_or.reduce([np.isin(batch[name], ids) for name, ids in new.items()])

    rows = [has_new(batch) for batch in Records(spec, TEST, features=list(new)).batches(_AT_ONCE)]
    return {ADMITTED: np.concatenate(rows).astype(np.int8)}
