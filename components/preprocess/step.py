"""The preprocess step: a data set's raw files in, its samples out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from components import registry
from components.artifacts import Artifact, open_input, publishing
from components.checks.profile import reference_profile
from components.checks.profiler import Profiler
from components.datasets import PreprocessJob
from components.errors import KfrecError
from components.preprocess.elsewhere import checked_scheduler, settings_of, shared_place
from components.steps.catalog import PreprocessParameters
from components.steps.recorded import recorded


def run(parameters: PreprocessParameters, *, raw: Path, parquet: Path) -> Mapping[str, int]:
    """Writes the parquet artifact.

    Returns:
        The data set's counts, including train and test samples.

    Raises:
        KfrecError: bad input, or a data check that stops the run; an earlier ``parquet`` stays as it was.
    """
    dataset = registry.dataset(parameters.dataset)
    artifact = open_input(raw, steps=("download",))
    settings = settings_of(parameters)
    with (
        _naming_the_source(artifact),
        publishing(parquet, step="preprocess", inputs={"raw": artifact}, parameters=recorded(parameters)) as staging,
        shared_place(settings, staging) as place,
        checked_scheduler(parameters, settings, place.scratch) as scheduler,
    ):
        given = parameters.reference_profile
        reference = reference_profile(given, dataset.name, staging.scratch / "reference") if given else None
        profiler = Profiler(parameters, reference)
        job = PreprocessJob(parameters, artifact, staging.path, place.output, place.scratch, scheduler, profiler)
        staging.rows.update(dataset.preprocess(job))
        profiler.write(staging.path)
    return staging.rows


@contextmanager
def _naming_the_source(raw: Artifact) -> Iterator[None]:
    """Errors of the block name the file that the user can correct, not the copy of it that is read."""
    try:
        yield
    except KfrecError as error:
        error.args = (raw.at_source(str(error)),)
        raise
