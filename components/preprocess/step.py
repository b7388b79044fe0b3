"""The preprocess step: a data set's raw files in, its samples out."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from components import registry
from components.artifacts import Artifact, open_input, publishing
from components.artifacts.publish import Staging
from components.checks.profile import reference_profile
from components.checks.profiler import Profiler
from components.datasets import PreprocessJob
from components.datasets.parameters import PreprocessParameters
from components.errors import KfrecError
from components.parameters import SYNTHETIC, parameters_of
from components.steps.catalog import STEPS
from components.steps.recorded import recorded

_PREFIX = "kfrec-preprocess-"
# In a folder of this step alone: a user's folder may have such a name, too.
_MARKER = ".kfrec-preprocess"
# No step runs this long: a killed step left older files behind.
_ABANDONED_SECONDS = 7 * 86_400


def run(parameters: PreprocessParameters, *, raw: Path, parquet: Path) -> Mapping[str, int]:
    """Writes the parquet artifact.

    Returns:
        The data set's counts, including train and test samples.

    Raises:
        KfrecError: bad input, or a data check that stops the run; an earlier ``parquet`` stays as it was.
    """
    dataset = registry.dataset(parameters.dataset)
    artifact = open_input(raw, steps=("download", "feedback"))
    with (
        _naming_the_source(artifact),
        publishing(parquet, step="preprocess", inputs={"raw": artifact}, parameters=recorded(parameters)) as staging,
        _folders(parameters, staging) as (scratch, output),
    ):
        location = parameters.reference_profile
        reference = reference_profile(location, dataset.name, staging.scratch / "reference") if location else None
        profiler = Profiler(dataset.name, parameters, parameters.seed, reference)
        job = PreprocessJob(
            parameters, artifact, staging.path, output, scratch, parameters.scheduler, profiler, _generation(artifact)
        )
        counts = dataset.preprocess(job)
        if not isinstance(counts, Mapping) or not {"train", "test"} <= counts.keys():
            raise KfrecError(
                f"data set {dataset.name}: preprocess returns {counts!r}; return counts by name, train and test among "
                "them"
            )
        staging.rows.update(counts)
        profiler.write(staging.path)
    return staging.rows


def _generation(raw: Artifact) -> Any | None:
    """The download step's parameters, if it generated the raw files."""
    written = raw.parameters
    if raw.step != "download" or written.get("source") != SYNTHETIC:
        return None
    known = {parameter.name for parameter in parameters_of(STEPS["download"].parameters(written))}
    return STEPS["download"].of(**{name: value for name, value in written.items() if name in known})


@contextmanager
def _naming_the_source(raw: Artifact) -> Iterator[None]:
    """Errors of the block name the file that the user can correct, not the copy of it that is read."""
    try:
        yield
    except KfrecError as error:
        error.args = (raw.at_source(str(error)),)
        raise


@contextmanager
def _folders(parameters: PreprocessParameters, staging: Staging) -> Iterator[tuple[Path, Path]]:
    """Where this step and its workers write temporary files, and what becomes part of the artifact.

    They exchange paths, so workers of a ``scheduler`` on other machines need a volume at the path of the step's: both
    folders are below ``shared_folder``, if it is given, and the output is moved to the staging folder at the end.

    Raises:
        KfrecError: the folder cannot be written, or the workers do not fit this step.
    """
    if not parameters.scheduler:
        yield staging.scratch, staging.path
        return
    from components.workflows.workers import check_workers

    if not parameters.shared_folder:
        check_workers(parameters.scheduler, staging.scratch)
        yield staging.scratch, staging.path
        return
    shared = Path(parameters.shared_folder)
    try:
        _remove_abandoned(shared)
        work = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=shared))
        (work / _MARKER).touch()
    except OSError as error:
        raise KfrecError(
            f"shared_folder {shared}: cannot be written ({error.strerror}); mount the volume of the Dask workers there "
            "in the step too, writable for both"
        ) from None
    try:
        scratch, output = work / "scratch", work / "output"
        scratch.mkdir()
        output.mkdir()
        check_workers(parameters.scheduler, scratch)
        yield scratch, output
        for path in sorted(output.iterdir()):
            shutil.move(path, staging.path / path.name)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _remove_abandoned(shared: Path) -> None:
    for marker in shared.glob(f"{_PREFIX}*/{_MARKER}"):
        if time.time() - marker.stat().st_mtime > _ABANDONED_SECONDS:
            shutil.rmtree(marker.parent, ignore_errors=True)
