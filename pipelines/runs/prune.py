"""Removes old runs and registered versions that nothing needs any more."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.errors import KfrecError
from components.storage import is_uri
from components.tracking.champion import CHAMPION, DATA, JUDGED_AS, versions_of
from components.tracking.failures import is_of_the_store, unusable
from components.tracking.standing import BEFORE, DECISION, rolled_back
from components.tracking.store import connect, database_of, missing, tracking_uri
from pipelines.runs.record import RUNNING, RunRecord, every_run, held
from pipelines.summary import published

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

_DAY = 86_400


@dataclass(frozen=True)
class Limits:
    """What is old.

    Attributes:
        days: age from which something may be removed.
        newest: number of the newest ones that stay, of the runs and of each model's versions.
        models: names of the registered models whose old versions go; None is every model.
    """

    days: float
    newest: int
    models: frozenset[str] | None = None

    def old(self, ages: Sequence[float]) -> list[bool]:
        """Which are old, of seconds since 1970, newest first."""
        now = time.time()
        return [place >= self.newest and now - at > self.days * _DAY for place, at in enumerate(ages)]


@dataclass(frozen=True)
class Found:
    """A run, or a version of a registered model.

    Attributes:
        what: such as "run 20261126-100000-aaaa", or "kfrec-ctr version 3".
        because: why it stays although it is old; empty removes it.
    """

    what: str
    because: str
    version: ModelVersion | None = None
    run: RunRecord | None = None


def examine(workdir: Path, limits: Limits) -> list[Found]:
    """What is old, and of that what stays: versions first, then runs; newer ones are left out.

    A version stays if it has an alias, if it is the champion before the champion or the judged twin of one of these; so
    do versions that kfrec did not register, and those of models that ``limits`` does not name, without a word. A run
    stays if it is running, if it registered a version that stays, or if a run or a version that stays reads one of
    its files: a retraining reads the records of the champion.

    Raises:
        KfrecError: the store or a record cannot be read.
    """
    client = _client()
    found, kept = _versions(client, limits) if client else ([], [])
    return [*found, *_runs(workdir, limits, kept)]


def remove(found: Iterable[Found], workdir: Path) -> list[str]:
    """Removes what ``examine`` says, and returns a sentence for each thing that could not be removed.

    The logged model of a version, and its MLflow run unless another version is of that run, are deleted as MLflow
    deletes: ``mlflow gc`` frees their files.
    """
    from mlflow.exceptions import MlflowException

    client, problems = _client(), []
    gone: set[str] = set()
    for each in found:
        if each.because:
            continue
        try:
            if each.version is not None and client is not None:
                client.delete_model_version(each.version.name, each.version.version)
                _delete(client.delete_logged_model, each.version.model_id)
                gone.add(each.version.run_id or "")
            elif each.run is not None:
                with held(each.run.folder):
                    hidden = each.run.folder.with_name(f".{each.run.name}.pruned")
                    each.run.folder.rename(hidden)
                shutil.rmtree(hidden)
        except (KfrecError, MlflowException, OSError) as error:
            problems.append(f"{each.what}: cannot be removed ({str(error).splitlines()[0]})")
    if client is not None and gone:
        for run_id in gone - {held_version.run_id for held_version in client.search_model_versions()}:
            _delete(client.delete_run, run_id)
    for left in workdir.glob(".*.pruned"):  # of a call that was killed
        shutil.rmtree(left, ignore_errors=True)
    return problems


def _client() -> MlflowClient | None:
    """The store; None if it is a database that does not exist."""
    database = database_of(tracking_uri())
    return None if database and not database.is_file() else connect()


def _delete(delete: Callable[[str], None], identity: str | None) -> None:
    """Deletes a run or a logged model, unless it was deleted before."""
    from mlflow.exceptions import MlflowException

    try:
        if identity:
            delete(identity)
    except MlflowException as error:
        if is_of_the_store(error):
            raise


def _versions(client: MlflowClient, limits: Limits) -> tuple[list[Found], list[ModelVersion]]:
    """The old versions, and all that stay."""
    from mlflow.exceptions import MlflowException

    found, kept = [], []
    try:
        models = list(client.search_registered_models(max_results=1000))
        if unknown := sorted((limits.models or frozenset()) - {model.name for model in models}):
            raise KfrecError(f"--model {unknown[0]}: no such registered model; kfrec models lists them")
        for model in models:
            versions = sorted(versions_of(client, model.name), key=lambda held: -int(held.version))
            needed = _needed({str(held.version): held for held in versions}, model.aliases)
            old = limits.old([held.creation_timestamp / 1000 for held in versions])
            may_go = limits.models is None or model.name in limits.models
            for held_version, is_old in zip(versions, old, strict=True):
                if not may_go or DECISION not in held_version.tags:
                    kept.append(held_version)
                    continue
                because = needed.get(str(held_version.version), "")
                if is_old:
                    found.append(Found(f"{model.name} version {held_version.version}", because, version=held_version))
                if because or not is_old:
                    kept.append(held_version)
    except (MlflowException, *missing()) as error:
        raise unusable(client.tracking_uri, error) from error
    return found, kept


def _needed(versions: Mapping[str, ModelVersion], aliases: Mapping[str, Any]) -> dict[str, str]:
    """Version to why it stays."""
    needed = {str(version): f"it is the {alias}" for alias, version in aliases.items()}
    current = versions.get(str(aliases.get(CHAMPION, "")))
    seen: set[str] = set()
    while current is not None and str(current.version) not in seen:
        seen.add(str(current.version))
        twin = current.tags.get(JUDGED_AS, "")
        noted = json.loads(current.tags.get(DECISION, "{}"))
        before = str(current.tags.get(BEFORE) or noted.get("champion_version"))
        current = versions.get(before)
        if current is not None and before != twin:
            needed.setdefault(before, f"it was the {CHAMPION} before")
            if not rolled_back(current):
                break
    for number in list(needed):
        if number in versions and (judged := versions[number].tags.get(JUDGED_AS)):
            needed.setdefault(judged, f"version {number} was judged as it")
    return needed


def _runs(workdir: Path, limits: Limits, versions: Sequence[ModelVersion]) -> list[Found]:
    """The old runs; those that stay may name each other, so that reasons are found until none is new."""
    runs = sorted(every_run(workdir), key=lambda run: -run.started)
    old = {run.name: run for run, is_old in zip(runs, limits.old([run.started for run in runs]), strict=True) if is_old}
    because = {name: "it is running" for name, run in old.items() if run.state_now() == RUNNING}
    names = {(held.name, int(held.version)) for held in versions}
    for name, run in old.items():
        last = published(run.summary())
        if (last.get("model"), last.get("version")) in names:
            because.setdefault(name, f"it registered {last['model']} version {last['version']}, which stays")
    reads = [(f"{held.name} version {held.version}", held.tags.get(DATA, "")) for held in versions]
    reads += [(f"run {run.name}", text) for run in runs if run.name not in old for text in _texts(run.parameters)]
    reads += [(f"run {name}", text) for name in because for text in _texts(old[name].parameters)]
    while reads:
        who, text = reads.pop()
        for name, run in old.items():
            if name not in because and who != f"run {name}" and _is_within(text, run.folder):
                because[name] = f"{who} reads its files"
                reads += [(f"run {name}", each) for each in _texts(run.parameters)]
    return [Found(f"run {name}", because.get(name, ""), run=run) for name, run in old.items()]


def _texts(values: Mapping[str, Any]) -> list[str]:
    return [value for value in values.values() if isinstance(value, str) and value]


def _is_within(text: str, folder: Path) -> bool:
    """Whether a text is the path of something in a folder."""
    if not text or is_uri(text) or "/" not in text:
        return False
    with suppress(OSError, ValueError):
        return Path(text).resolve().is_relative_to(folder.resolve())
    return False
