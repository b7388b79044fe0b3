"""The data of a run: its name, the parameters it was made with, and its splits as MLflow's dataset inputs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from components.artifacts import Artifact
from components.secrets import without_passwords
from components.tracking.kept import Tracked

# MLflow's context of each split.
_CONTEXTS = {"train": "training", "test": "testing"}
# The length of an artifact's digest that MLflow accepts.
_DIGEST_LENGTH = 36


def data_name(data: Artifact) -> str:
    """A name of the data for people: its version, else the last part of its source, else its digest."""
    download = data.history.get("download", {})
    source = urlsplit(str(download.get("source", "")))
    place = (source.path.rstrip("/") or source.netloc.rpartition("@")[2]).rpartition("/")[2]
    return str(download.get("data_version") or place or f"data {data.digest[:7]}")


def log_lineage(run: Tracked, data: Artifact) -> None:
    """Logs the origin of the records: the digests, and the parameters of every step, as ``<step>.<name>``."""
    history = {step: without_passwords(dict(given)) for step, given in data.history.items()}
    run.log_parameters({f"{step}.{n}": v for step, given in history.items() for n, v in given.items()})
    run.set_tags({"data.tfrecord.digest": data.digest, **{f"data.{k}.digest": v for k, v in data.inputs.items()}})


def log_splits(run: Tracked, data: Artifact, place: str = "", splits: Sequence[str] = tuple(_CONTEXTS)) -> None:
    """Logs splits as the run's dataset inputs.

    Args:
        run: an open run.
        data: the records.
        place: URI where they are, where that is not the artifact's folder.
        splits: which.
    """
    where = data.data_uri or place or str(data.path.absolute())
    run.log_inputs(
        [_split(data, where, split, data.rows.get(split)) for split in splits], [_CONTEXTS[split] for split in splits]
    )


def _split(data: Artifact, place: str, split: str, rows: int | None) -> dict[str, Any]:
    return {
        "name": f"{data_name(data)} {split}",
        "digest": data.digest[:_DIGEST_LENGTH],
        "source_type": urlsplit(place).scheme or "local",
        "source": json.dumps({"uri": f"{place.rstrip('/')}/{split}"}),
        "profile": None if rows is None else json.dumps({"num_rows": rows}),
    }
