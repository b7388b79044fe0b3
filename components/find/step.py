"""The find step: looks for new data, decides whether to train, and fetches the champion for later steps.

Where each data version holds new rows alone, a night trains on those since the champion's, or on all.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components import registry
from components.artifacts import publishing
from components.checks import PROFILE
from components.feature_spec.living import grows
from components.find.versions import DataVersion, data_versions, natural_order, new_rows, until
from components.progress import warn
from components.secrets import without_password
from components.steps.catalog import FindParameters
from components.steps.recorded import recorded
from components.tracking.champion import (
    DATA_VERSION,
    MODEL,
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
import random
from collections.abc import Iterable
from itertools import takewhile
from typing import TYPE_CHECKING

from components.artifacts.remote import read_remote
from components.feature_spec.living import GROWN
from components.storage import below, is_uri
from components.tracking.champion import VOCABULARY

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion


# The folder of a model's checkpoints, and the list of them.
_CHECKPOINTS, _LIST = "checkpoint", "checkpoint"


@dataclass(frozen=True)
class Interval:
    """The data of a night.

    Attributes:
        versions: new ones, oldest first; the champion's own is the first, since its test rows have not trained yet.
        replayed: older ones, of which some rows train once more.
        histories: whether all rows of the older ones are read, as histories of the users of the new ones.
    """

    versions: Sequence[DataVersion]
    replayed: Sequence[DataVersion] = ()
    histories: bool = False

    @property
    def files(self) -> str:
        """The names of the files below the prefix, separated by commas."""
        return ",".join(f"{each.name}/{name}" for each in (*self.replayed, *self.versions) for name in each.files)

    def __str__(self) -> str:
        span = f"{self.versions[0].name} to {self.versions[-1].name}"
        if not self.replayed:
            return span
        older = self.replayed[0].name
        if len(self.replayed) > 1:
            older += f" to {self.replayed[-1].name}"
        return f"{span}, and {'reads histories' if self.histories else 'replays rows'} of {older}"


def since(versions: Sequence[DataVersion], data_version: str, replay_share: float, history: int = 0) -> Interval:
    """The data since a champion's.

    Args:
        versions: all, oldest first, with the champion's ``data_version`` among them.
        replay_share: 0 replays nothing.
        history: number of older versions that are read as histories; 0 is none.
    """
    first = natural_order(data_version)
    new = [version for version in versions if natural_order(version.name) >= first]
    older = [version for version in versions if natural_order(version.name) < first]
    if history and older:
        return Interval(new, older[-history:], histories=True)
    if not older or not replay_share:
        return Interval(new)
    # The same night draws the same version.
    return Interval(new, [random.Random(new[-1].name).choice(older)])


def nights_since_full(versions: Iterable[ModelVersion]) -> int:
    """How many of the newest registered versions, in a row, were trained on what was new alone."""
    newest = sorted(versions, key=lambda version: -int(version.version))
    return sum(1 for _ in takewhile(lambda version: version.tags.get(VOCABULARY) == GROWN, newest))


def has_checkpoints(model: str) -> bool:
    """Whether a training can continue the model at a folder or URI.

    Raises:
        KfrecError: the storage does not answer, or denies access.
    """
    if is_uri(model):
        return read_remote(below(model, _CHECKPOINTS), _LIST) is not None
    return bool(model) and (Path(model) / _CHECKPOINTS / _LIST).is_file()


NOTE = "champion.json"


def run(parameters: FindParameters, *, champion: Path) -> Mapping[str, Any]:
    """Writes the champion's folder and decides.

    Returns:
        ``versions`` found; ``proceed`` and the ``occasion`` in a sentence; ``source`` and ``data_version`` of the
        newest data, and the ``files`` to read of the source, empty for all; ``workflow``, ``warm_start_path`` and
        ``reference_profile``, each where the champion is, or empty; ``continue_path``, where its checkpoints are.

    Raises:
        KfrecError: no prefix, no data version until ``data_until``, no model registry, or a champion of another task.
    """
    from mlflow.exceptions import MlflowException

    dataset = registry.dataset(parameters.dataset)
    every, passed_over = data_versions(parameters.data_prefix, dataset.raw)
    versions = until(every, parameters.data_until)
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
            lambda: _rows_of(versions, there[known.data_version], parameters),
        )
        with publishing(champion, step="find", parameters=recorded(parameters)) as staging:
            fetched = verdict.proceed and current is not None and _fetch(client, parameters, current, staging.path)
            night = _night(client, parameters, versions, known, current if fetched else None, staging.path)
            occasion = " ".join(filter(None, (verdict.occasion, night.what if verdict.proceed else "")))
            print(occasion, flush=True)
            note = {"version": known.champion, "data_version": known.data_version, "rows": known.rows}
            (staging.path / NOTE).write_text(json.dumps(note, indent=2) + "\n")
            staging.rows["versions"] = len(versions)
    except MlflowException as error:
        raise unusable(client.tracking_uri, error) from error
    location = (parameters.champion_uri or str(champion.absolute())) if fetched else ""
    keeps = night.continues or (parameters.keep_vocabulary and not parameters.full_every)
    return {
        **staging.rows,
        "proceed": verdict.proceed,
        "occasion": occasion,
        "source": night.source,
        "data_version": newest.name,
        "workflow": location if keeps and fetched and (champion / "vocabulary").is_dir() else "",
        "warm_start_path": location if parameters.warm_start and not night.continues else "",
        "reference_profile": location if fetched and (champion / PROFILE).is_file() else "",
        "files": night.files,
        "continue_path": night.continues,
    }


@dataclass(frozen=True)
class _Night:
    """What a training reads.

    Attributes:
        files: of the source; empty for all.
        continues: where the checkpoints are that it continues, empty for none.
        what: the same in a sentence, empty for the newest version alone.
    """

    source: str
    files: str = ""
    continues: str = ""
    what: str = ""


def _rows_of(versions: Sequence[DataVersion], champions: DataVersion, parameters: FindParameters) -> int:
    """New rows of the newest version, or of all since the champion's if each holds new rows alone."""
    later = since(versions, champions.name, 0).versions[1:] if parameters.full_every else versions[-1:]
    return sum(new_rows(version, champions) for version in later)


def _night(
    client: MlflowClient,
    parameters: FindParameters,
    versions: Sequence[DataVersion],
    known: Known,
    current: ModelVersion | None,
    champion: Path,
) -> _Night:
    """What tonight's training reads.

    Args:
        current: the champion, if its files were fetched into ``champion``.
    """
    if not parameters.full_every:
        return _Night(versions[-1].uri)
    every = _Night(parameters.data_prefix, Interval(versions).files)

    def full(why: str) -> _Night:
        return replace(every, what=f"All {len(versions)} versions train, {why}.")

    if current is None:
        return full("since there is no champion to continue")
    held = judged_twin(client, current)
    model, nights = held.tags.get(MODEL, ""), nights_since_full(versions_of(client, parameters.registered_model))
    if not grows(champion):
        return full("since the champion's vocabulary cannot grow")
    if not known.is_there or natural_order(versions[-1].name) <= natural_order(known.data_version):
        return full("since there is no version after the champion's to continue with")
    has_histories = registry.dataset(parameters.dataset).histories is not None
    # Of histories a night knows the moment up to which the champion has trained.
    if known.data_version == versions[0].name and len(versions[0].files) == 1 and not has_histories:
        return full("since the champion's version is one file, of which a part tested it and the rest has trained")
    if nights + 1 >= parameters.full_every:
        return full(f"as once in {parameters.full_every} nights")
    if not has_checkpoints(model):
        return full(
            f"since the champion's checkpoints are not at {without_password(model) or 'a known place'} any more"
        )
    interval = since(
        versions, known.data_version, parameters.replay_share, parameters.history_versions if has_histories else 0
    )
    what = f"The training continues version {held.version} with {interval}."
    return _Night(parameters.data_prefix, interval.files, model, what)


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
    proceed: bool
    occasion: str


def decide(newest: str, known: Known, minimum_new: int, force: bool, count: Callable[[], int]) -> Verdict:
    """Decides about the newest version.

    Args:
        minimum_new: rows required that the champion's data lack.
        count: counts its rows that the champion's data lack.
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
    rows = count()
    if rows < minimum_new:
        return Verdict(
            False,
            f"Too little is new: data version {newest} has {rows:,} rows that the champion's {known.data_version} "
            f"lacks, and at least {minimum_new:,} are asked for.",
        )
    return Verdict(True, f"Data version {newest} has {rows:,} rows that the champion's {known.data_version} lacks.")
