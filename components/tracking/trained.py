"""What MLflow shows of a training, from the model that it wrote, and the lineage of its data."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from components.artifacts import Artifact
from components.artifacts.remote import fetch_artifact
from components.checks import PROFILE
from components.checks.findings import brief, exceeded
from components.checks.profile import PASSED, Profile
from components.feature_spec import load_feature_spec
from components.feature_spec.spec import FILENAME, TRAIN, VALIDATION
from components.parameters import parameters_of
from components.secrets import without_passwords
from components.steps.catalog import STEPS
from components.steps.recorded import EXTENSION
from components.steps.training_parameters import MAY_CHANGE
from components.tracking.live import Series, began_now
from components.tracking.run import TrackedRun
from components.training_log import LOG, TRAINING, points_of, scores_of

# The results of a training, in addition to the scores of the exported epoch.
_SPEED = ("train_samples_per_second", "time_to_train")
# The tags with what is trained, and with the digest of the model whose training the run shows to its end.
_TRAINED, _COMPLETE = "kfrec.training", "kfrec.trained_model"
_SEED = "train_seed"
# These identify the run and are not training parameters.
_NOT_LOGGED = ("experiment", "run_id", "tfrecord_uri", "model_uri")
_FILES = (LOG, TRAINING)
# MLflow's context of each split.
_CONTEXTS = {"train": "training", "validation": "validation", "test": "testing"}
# Maximum length of a digest in MLflow.
_DIGEST_LENGTH = 36
# Characters that MLflow rejects in a metric's name, and the maximum length.
_NOT_IN_A_NAME, _NAME_LENGTH = re.compile(r"[^/\w.\- :]"), 250


def log_start(run: TrackedRun, parameters: Mapping[str, Any], data: Artifact, uri: str = "") -> None:
    """Logs parameters and lineage; before the workers start, so that a killed training has them too.

    A training goes on where the run shows one with the same parameters and data that has not ended; else it begins.

    Args:
        parameters: of the step, as its manifest records them; a seed that is drawn is logged by ``complete_training``.
        uri: URI of the records, if not the artifact's folder.
    """
    choices = {name: str(parameters[name]) for name in ("model_type", "task")}
    declared = [p for p in parameters_of(STEPS["train"].parameters(choices)) if p.name in parameters]
    trained = _trained({p.name: parameters[p.name] for p in declared}, data)
    if run.tags.get(_COMPLETE) or run.tags.get(_TRAINED) != trained:
        run.set_tags({_TRAINED: trained, _COMPLETE: "", **began_now()})
    logged = [p for p in declared if p.name not in _NOT_LOGGED]
    values = {p.pipeline_name: parameters[p.name] for p in logged}
    if values[_SEED] < 0:
        del values[_SEED]
    run.log_parameters(values)
    log_lineage(run, data)
    spec = load_feature_spec(data.path, str(parameters.get("feature_spec", FILENAME)))
    log_splits(run, data, [split for split in (TRAIN, VALIDATION) if split in spec.sources], uri)
    log_extensions(run, parameters)


def _trained(parameters: Mapping[str, Any], data: Artifact) -> str:
    """A digest of all that a training which resumes must share with the one before it.

    Args:
        parameters: that the step declares; a model in storage also records those of its worker.
    """
    fixed = {name: value for name, value in parameters.items() if name not in (*MAY_CHANGE, "load_checkpoint_path")}
    return hashlib.sha256(json.dumps([fixed, data.digest], sort_keys=True).encode()).hexdigest()[:16]


def _log_trained(run: TrackedRun, model: Artifact) -> None:
    """Logs the actual seed, the curves and the results of a training, each of which may be there already."""
    with _log_and_results(model) as folder:
        results = json.loads((folder / TRAINING).read_text())
        run.log_parameters({_SEED: results["seed"]})
        Series(run).log(points_of(folder / LOG, results, int(model.parameters["log_steps"])))
        chosen = {name: results[name] for name in ("best_epoch", "exported_epoch")}
        finals = final_metrics(results) | chosen | {"stopped_early": float(results["stopped_early"])}
        run.log_metrics({name: value for name, value in finals.items() if value is not None})
        for name in _FILES:
            run.log_artifact(folder / name, "training")
    run.set_tags({_COMPLETE: model.digest})


def complete_training(run: TrackedRun, model: Artifact, data: Artifact, uri: str = "") -> None:
    """Logs what the run lacks of the training of ``model``: at its end, or later if MLflow was away.

    A model that no train step has made, such as an adopted folder, shows none.

    Args:
        uri: URI of the records, if not the artifact's folder.
    """
    if model.parameters and run.tags.get(_COMPLETE) != model.digest:
        log_start(run, model.parameters, data, uri)
        _log_trained(run, model)


def final_metrics(results: Mapping[str, Any]) -> dict[str, float | None]:
    """Scores of the exported epoch and the overall speed, from the content of training.json."""
    return scores_of(results["epochs"][results["exported_epoch"] - 1]) | {name: results[name] for name in _SPEED}


@contextmanager
def _log_and_results(model: Artifact) -> Iterator[Path]:
    """A folder with the training log and the results, which a step in a pod does not fetch otherwise."""
    if all((model.path / name).is_file() for name in _FILES):
        yield model.path
        return
    with tempfile.TemporaryDirectory(prefix="kfrec-training-") as folder:
        yield fetch_artifact(model.data_uri, Path(folder) / "model", lambda path: path in _FILES).path


def data_name(data: Artifact) -> str:
    """A display name of the data: its version, else the last part of its source, else its digest."""
    download = data.history.get("download", {})
    source = urlsplit(str(download.get("source", "")))
    name = (source.path.rstrip("/") or source.netloc.rpartition("@")[2]).rpartition("/")[2]
    return str(download.get("data_version") or name or f"data {data.digest[:7]}")


def log_lineage(run: TrackedRun, data: Artifact) -> None:
    """Logs the origin of the records: the digests, and the parameters of every step, as ``<step>.<name>``."""
    history = {step: without_passwords(dict(parameters)) for step, parameters in data.history.items()}
    run.log_parameters({f"{step}.{n}": v for step, parameters in history.items() for n, v in parameters.items()})
    log_extensions(run, *data.history.values())
    run.set_tags({"data.tfrecord.digest": data.digest, **{f"data.{k}.digest": v for k, v in data.inputs.items()}})


def log_extensions(run: TrackedRun, *values: Mapping[str, Any]) -> None:
    """Tags a run with the packages beside kfrec whose code it runs: ``kfrec.extension.dataset`` and the like."""
    run.set_tags({f"kfrec.{name}": v for each in values for name, v in each.items() if name.startswith(EXTENSION)})


def log_splits(run: TrackedRun, data: Artifact, splits: Sequence[str], uri: str = "") -> None:
    """Logs splits as the run's dataset inputs.

    Args:
        uri: URI of the records, if not the artifact's folder.
    """
    where = data.data_uri or uri or str(data.path.absolute())
    run.log_inputs(
        [_split(data, where, split, data.rows.get(split)) for split in splits], [_CONTEXTS[split] for split in splits]
    )


def log_profile(run: TrackedRun, data: Artifact, profile: Profile) -> None:
    """Logs the profile of the raw data as ``data/profile.json``, and its numbers as metrics.

    Metrics are ``data.rows.<table>``, ``data.malformed.<table>`` and, for each check,
    ``data.<check>.<table>.<column>``. The tag ``kfrec.data_checks`` lists the checks above their limits.
    """
    numbers: dict[str, float] = {}
    for name, table in profile.tables.items():
        numbers |= {f"data.rows.{name}": table.rows, f"data.malformed.{name}": table.malformed_share}
    for finding in profile.findings:
        if finding.check != "rows":
            numbers[".".join(filter(None, ("data", finding.check, finding.table, finding.column)))] = finding.value
    run.log_metrics({metric_name(name): value for name, value in numbers.items()})
    above = [brief(finding) for finding in exceeded(profile.findings)]
    run.set_tags({"kfrec.data_checks": f"{len(above)} above their limits: {', '.join(above)}" if above else PASSED})
    run.log_artifact(data.path / PROFILE, "data")


def metric_name(name: str) -> str:
    """A valid MLflow metric name; MLflow groups metrics by the part before a slash."""
    parts = (part if part.strip(". ") else "_" for part in _NOT_IN_A_NAME.sub("_", name).split("/"))
    return "/".join(parts)[:_NAME_LENGTH]


def _split(data: Artifact, uri: str, split: str, rows: int | None) -> dict[str, Any]:
    return {
        "name": f"{data_name(data)} {split}",
        "digest": data.digest[:_DIGEST_LENGTH],
        "source_type": urlsplit(uri).scheme or "local",
        "source": json.dumps({"uri": f"{uri.rstrip('/')}/{split}"}),
        "profile": None if rows is None else json.dumps({"num_rows": rows}),
    }
