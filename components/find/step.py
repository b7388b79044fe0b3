"""The find step: looks for new data, decides whether to train, and fetches the champion for later steps."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components import registry
from components.artifacts import publishing
from components.checks import PROFILE
from components.find.versions import data_versions, natural_order, new_rows
from components.progress import warn
from components.steps.catalog import FindParameters
from components.steps.recorded import recorded
from components.tracking.champion import (
    DATA_VERSION,
    ROWS,
    FilesGone,
    champion_of,
    download_version,
    judged_twin,
    require_task,
    versions_of,
)
from components.tracking.failures import unusable
from components.tracking.store import connect

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion


NOTE = "champion.json"


def run(parameters: FindParameters, *, champion: Path) -> Mapping[str, Any]:
    """Writes the champion's folder and decides.

    Returns:
        ``versions`` found; ``proceed`` and the ``occasion`` in a sentence; ``source`` and ``data_version`` of the
        newest data; ``workflow``, ``warm_start_path`` and ``reference_profile``, each where the champion is, or empty.

    Raises:
        KfrecError: no prefix, no data version, no model registry, or a champion of another task.
    """
    from mlflow.exceptions import MlflowException

    dataset = registry.dataset(parameters.dataset)
    versions, passed_over = data_versions(parameters.data_prefix, dataset.raw)
    for line in passed_over:
        warn("find", "skipped folder", line)
    newest = versions[-1]
    client = connect()
    try:
        current = champion_of(client, parameters.registered_model)
        if current:
            require_task(client, parameters.registered_model, current, parameters.task)
        there = {version.name: version for version in versions}
        known = _known(client, parameters.registered_model, current, there)
        verdict = decide(
            newest.name,
            known,
            parameters.minimum_new_rows,
            parameters.force,
            lambda enough: new_rows(newest, there[known.data_version], enough),
        )
        print(verdict.occasion, flush=True)
        with publishing(champion, step="find", parameters=recorded(parameters)) as staging:
            fetched = verdict.proceed and current is not None and _fetch(client, parameters, current, staging.path)
            note = {"version": known.champion, "data_version": known.data_version, "rows": known.rows}
            (staging.path / NOTE).write_text(json.dumps(note, indent=2) + "\n")
            staging.rows["versions"] = len(versions)
    except MlflowException as error:
        raise unusable(client.tracking_uri, error) from error
    location = (parameters.champion_uri or str(champion.absolute())) if fetched else ""
    has_vocabulary = fetched and (champion / "vocabulary").is_dir()
    return {
        **staging.rows,
        "proceed": verdict.proceed,
        "occasion": verdict.occasion,
        "source": newest.uri,
        "data_version": newest.name,
        "workflow": location if parameters.keep_vocabulary and has_vocabulary else "",
        "warm_start_path": location if parameters.warm_start else "",
        "reference_profile": location if fetched and (champion / PROFILE).is_file() else "",
    }


def _known(client: MlflowClient, name: str, current: Any, there: Collection[str]) -> Known:
    """The champion and the tried data versions, from the registry."""
    tried = {version.tags[DATA_VERSION] for version in versions_of(client, name) if DATA_VERSION in version.tags}
    if current is None:
        return Known(tried=tried)
    rows, data_version = current.tags.get(ROWS, ""), current.tags.get(DATA_VERSION, "")
    known = int(rows) if rows.isdigit() else None
    return Known(int(current.version), data_version, known, data_version in there, tried)


def _fetch(client: MlflowClient, parameters: FindParameters, current: ModelVersion, folder: Path) -> bool:
    """Fetches the champion's files; without them a new vocabulary is fitted and training starts fresh.

    Those of a refit are its judged twin's: the refit has trained on events that the next test split holds.
    """
    from components.scoring.model import SAVED_MODEL  # takes as long to import as all of this step

    with tempfile.TemporaryDirectory(prefix="kfrec-champion-") as scratch:
        try:
            version = judged_twin(client, current).version
            downloaded = download_version(client, parameters.registered_model, version, Path(scratch))
        except FilesGone as error:
            print(f"champion version {current.version}: {error}; continuing without it", flush=True)
            return False
        if not (downloaded / SAVED_MODEL).is_dir():
            print(f"champion version {version}: its files lack {SAVED_MODEL}; continuing without it", flush=True)
            return False
        shutil.copytree(downloaded, folder, dirs_exist_ok=True)
    return True


@dataclass(frozen=True)
class Known:
    """Facts from the registry.

    Attributes:
        champion: version of the champion, None if there is none.
        data_version: version of the champion's data, empty if unknown.
        rows: rows of the champion's data, None if unknown.
        is_there: whether the champion's data still are among the versions.
    """

    champion: int | None = None
    data_version: str = ""
    rows: int | None = None
    is_there: bool = False
    tried: Collection[str] = ()


@dataclass(frozen=True)
class Verdict:
    """The decision and its reason."""

    proceed: bool
    occasion: str


def decide(newest: str, known: Known, minimum_new: int, force: bool, count: Callable[[int], int]) -> Verdict:
    """Decides about the newest version.

    Args:
        minimum_new: rows required that the champion's data lack.
        count: counts its rows that the champion's data lack, up to a limit.
    """
    if force:
        return Verdict(True, f"Data version {newest}: training was requested with force.")
    if known.champion is None and newest not in known.tried:
        return Verdict(True, f"Data version {newest}: there is no champion yet.")
    if newest in known.tried:
        return Verdict(
            False, f"Nothing is new: {newest} is the newest data version, and a model was trained on it already."
        )
    if known.data_version and natural_order(newest) < natural_order(known.data_version):
        return Verdict(
            False, f"Nothing is new: the champion was trained on {known.data_version}, which is newer than {newest}."
        )
    if not known.data_version:
        return Verdict(True, f"Data version {newest}: the champion's data is not known, so this counts as new.")
    if not known.is_there:
        return Verdict(
            True, f"Data version {newest}: the champion's {known.data_version} is gone, so all of this counts as new."
        )
    rows = count(minimum_new)
    if rows < minimum_new:
        return Verdict(
            False,
            f"Too little is new: data version {newest} has {rows:,} rows that the champion's {known.data_version} "
            f"lacks, and at least {minimum_new:,} are asked for.",
        )
    return Verdict(
        True, f"Data version {newest} has at least {minimum_new:,} rows that the champion's {known.data_version} lacks."
    )
