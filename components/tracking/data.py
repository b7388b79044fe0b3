"""Lineage of a run: name and parameters of its data, and its splits as MLflow's dataset inputs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from components.artifacts import Artifact
from components.checks import PROFILE
from components.checks.findings import brief, exceeded
from components.checks.profile import PASSED, Profile
from components.secrets import without_passwords
from components.steps.recorded import EXTENSION
from components.tracking.run import TrackedRun

# MLflow's context of each split.
_CONTEXTS = {"train": "training", "validation": "validation", "test": "testing"}
# Maximum length of a digest in MLflow.
_DIGEST_LENGTH = 36
# Characters that MLflow rejects in a metric's name, and the maximum length.
_NOT_IN_A_NAME, _NAME_LENGTH = re.compile(r"[^/\w.\- :]"), 250


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
