"""Workers on other machines: the folder shared with the step, the cluster, and the check of both.

The step and its workers exchange paths: of the users' runs, the items, the vocabulary's tables, the histories and the
samples. So these files must be on a volume that the step and all workers mount at the same path.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from components.artifacts.publish import Staging
from components.errors import KfrecError
from components.preprocess.dask_settings import DaskSettings
from components.steps.catalog import PreprocessParameters
from components.steps.settings_file import load_settings_file

_PREFIX = "kfrec-preprocess-"
# No step runs this long: a killed step left older files behind.
_ABANDONED_SECONDS = 7 * 86_400


@dataclass(frozen=True)
class Place:
    """Where workers read and write.

    Attributes:
        scratch: temporary files.
        output: what becomes part of the artifact.
    """

    scratch: Path
    output: Path


def settings_of(parameters: PreprocessParameters) -> DaskSettings:
    """The cluster settings that these parameters need.

    Raises:
        KfrecError: the file is invalid.
    """
    if not (parameters.scheduler or parameters.dask_workers):
        return DaskSettings()
    return load_settings_file(Path(parameters.dask_settings), DaskSettings)


@contextmanager
def shared_place(settings: DaskSettings, staging: Staging) -> Iterator[Place]:
    """Folders below ``shared_folder``, if it is set; their output is moved to the staging folder at the end.

    Raises:
        KfrecError: the folder cannot be written.
    """
    if not settings.shared_folder:
        yield Place(staging.scratch, staging.path)
        return
    shared = Path(settings.shared_folder)
    try:
        _remove_abandoned(shared)
        work = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=shared))
    except OSError as error:
        raise KfrecError(
            f"shared_folder {shared}: cannot be written ({error.strerror}); mount the volume of the Dask workers there "
            "in the step too, writable for both"
        ) from None
    try:
        place = Place(work / "scratch", work / "output")
        place.scratch.mkdir()
        place.output.mkdir()
        yield place
        for path in sorted(place.output.iterdir()):
            shutil.move(path, staging.path / path.name)
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def checked_scheduler(parameters: PreprocessParameters, settings: DaskSettings, folder: Path) -> Iterator[str]:
    """The address of a Dask scheduler whose workers share ``folder`` with this step; empty is this machine.

    Raises:
        KfrecError: no scheduler, no workers, or workers that do not fit this step.
    """
    if not (parameters.scheduler or parameters.dask_workers):
        yield ""
        return
    from components.workflows.workers import check_workers

    if parameters.scheduler:
        check_workers(parameters.scheduler, folder)
        yield parameters.scheduler
        return
    from components.preprocess.dask_cluster.running import running_cluster

    with running_cluster(parameters.dask_workers, settings) as address:
        check_workers(address, folder)
        yield address


def _remove_abandoned(shared: Path) -> None:
    for left in shared.glob(f"{_PREFIX}*"):
        if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
            shutil.rmtree(left, ignore_errors=True)
