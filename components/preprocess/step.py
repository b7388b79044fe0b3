"""The preprocess step: raw reviews in, training samples out."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from components.artifacts import open_artifact, publishing
from components.artifacts.remote import fetch_artifact
from components.errors import KfrecError
from components.preprocess import encoding
from components.preprocess.items import parse_items, write_items
from components.preprocess.nvtabular_quiet import Workflow
from components.preprocess.pipeline import encode_histories, select_histories, write_splits
from components.preprocess.raw_files import find_raw_files
from components.preprocess.reading import RawReader
from components.preprocess.reviews import parse_reviews
from components.preprocess.user_runs import UserRuns
from components.preprocess.workers import check_scheduler, dask_workers, workers_ahead
from components.steps.catalog import PreprocessParameters
from components.steps.parameter import as_plain
from components.storage import is_uri

VOCABULARY = "vocabulary"


def run(parameters: PreprocessParameters, *, raw: Path, parquet: Path) -> Mapping[str, int]:
    """Writes the parquet artifact.

    Returns:
        Counts: train and test samples, the users and reviews that were kept, and the lines that were left out.

    Raises:
        KfrecError: bad input; an earlier ``parquet`` stays as it was.
    """
    artifact = open_artifact(raw)
    files = find_raw_files(artifact.path)
    if parameters.scheduler:
        check_scheduler(parameters.scheduler)
    with (
        publishing(parquet, step="preprocess", inputs={"raw": artifact}, parameters=as_plain(parameters)) as staging,
        tempfile.TemporaryDirectory(prefix=".preprocess-", dir=staging.path.parent) as temporary,
    ):
        scratch = Path(temporary)
        fitted = fitted_workflow(parameters.workflow, scratch / "given") if parameters.workflow else None
        reader = RawReader(staging.path / "quarantine", parameters.malformed_limit)
        runs = UserRuns(scratch)
        for reviews in reader.tables(files.reviews, parse_reviews, "reviews", "reading reviews"):
            runs.add(reviews)
            if runs.reviews > parameters.reviews_per_partition:
                workers_ahead(parameters.workers, parameters.scheduler)
        partitions = runs.partitions(parameters.reviews_per_partition)
        if not runs.reviews:
            raise KfrecError(f"{files.reviews[0]}: no reviews in it; check what download fetched")
        items = scratch / "items.arrow"
        write_items(reader.tables(files.metadata, parse_items, "item metadata", "reading metadata"), items)

        with dask_workers(parameters.workers, parameters.scheduler, len(partitions)) as workers:
            histories = select_histories(workers, partitions, items, files, parameters, scratch)
            encoded = encode_histories(
                workers, histories, fitted, parameters.out_of_vocabulary_limit, staging.path, scratch
            )
            samples = write_splits(workers, encoded, parameters, staging.path)

        cardinalities = [{"name": name, "value": value} for name, value in encoded.cardinalities.items()]
        noted = {
            "vocabulary": encoded.vocabulary,
            "out_of_vocabulary_rate": encoded.out_of_vocabulary_rate,
            "raw_reviews": artifact.rows.get("reviews", runs.reviews),
        }
        metadata = {"cardinalities": cardinalities, "encoding": noted}
        (staging.path / "metadata.json").write_text(json.dumps(metadata, indent=2) + "\n")
        staging.rows.update(samples)
        staging.rows.update(
            users=sum(part.users for part in histories),
            reviews=sum(part.reviews for part in histories),
            malformed_lines=reader.malformed_lines,
        )
    return staging.rows


def fitted_workflow(place: str, scratch: Path) -> Workflow:
    """The workflow of an earlier output.

    Args:
        place: its workflow folder, or folder or URI of an artifact that carries the vocabulary.
        scratch: folder for what has to be fetched or made.

    Raises:
        KfrecError: there is neither.
    """
    folder = Path(place)
    if is_uri(place):
        folder = scratch / "fetched"
        fetch_artifact(place, folder, lambda path: path.startswith(f"{VOCABULARY}/"))
    if (folder / VOCABULARY).is_dir():
        (scratch / "workflow").mkdir(parents=True)
        return encoding.from_vocabulary(folder / VOCABULARY, scratch / "workflow")
    return encoding.load(folder)
