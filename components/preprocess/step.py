"""The preprocess step: raw reviews in, training samples out.

NVTabular takes two seconds to import: what needs it is imported in functions, after reading has begun.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from components.artifacts import open_input, publishing
from components.errors import KfrecError
from components.preprocess import fork_server
from components.preprocess.elsewhere import checked_scheduler, settings_of, shared_place
from components.preprocess.items import parse_items, write_items
from components.preprocess.raw_files import find_raw_files
from components.preprocess.reading import RawReader
from components.preprocess.reviews import parse_reviews
from components.preprocess.user_runs import UserRuns
from components.steps.catalog import PreprocessParameters
from components.steps.parameter import as_plain

if TYPE_CHECKING:
    from components.preprocess.encoding import Encoder


def run(parameters: PreprocessParameters, *, raw: Path, parquet: Path) -> Mapping[str, int]:
    """Writes the parquet artifact.

    Returns:
        Counts: train and test samples, the users and reviews that were kept, and the lines that were left out.

    Raises:
        KfrecError: bad input; an earlier ``parquet`` stays as it was.
    """
    artifact = open_input(raw, steps=("download",))
    files = find_raw_files(artifact)
    settings = settings_of(parameters)
    with (
        ThreadPoolExecutor(1, thread_name_prefix="ahead") as ahead,
        publishing(parquet, step="preprocess", inputs={"raw": artifact}, parameters=as_plain(parameters)) as staging,
        shared_place(settings, staging) as place,
        UserRuns(place.scratch) as runs,
        checked_scheduler(parameters, settings, place.scratch) as scheduler,
    ):
        ahead.submit(import_module, "components.preprocess.pipeline")
        scratch = place.scratch
        given = _given(parameters, scratch / "given")
        reader = RawReader(staging.path / "quarantine", parameters.malformed_limit)
        for reviews in reader.tables(files.reviews, parse_reviews, "reviews", "reading reviews"):
            runs.add(reviews)
            if runs.reviews / reader.share > parameters.reviews_per_partition:
                fork_server.start_early(parameters.workers, scheduler)
        partitions = runs.partitions(parameters.reviews_per_partition)
        if not runs.reviews:
            raise KfrecError(f"{files.reviews[0]}: no reviews in it; check what download fetched")
        items = scratch / "items.arrow"
        write_items(reader.tables(files.metadata, parse_items, "item metadata", "reading metadata"), items)

        from components.preprocess.pipeline import encode_histories, select_histories, write_splits
        from components.preprocess.workers import dask_workers

        with dask_workers(parameters.workers, scheduler, len(partitions)) as workers:
            histories = select_histories(workers, partitions, items, files, parameters, scratch)
            encoded = encode_histories(
                workers, histories, given, parameters.out_of_vocabulary_limit, staging.path, scratch
            )
            samples = write_splits(workers, encoded, parameters, place.output)

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


def _given(parameters: PreprocessParameters, scratch: Path) -> Encoder | None:
    """The workflow to encode with, if one is named; here, before the long work, so that what is missing is told now."""
    if not parameters.workflow:
        return None
    from components.preprocess.encoding import earlier_encoder

    return earlier_encoder(parameters.workflow, scratch)
