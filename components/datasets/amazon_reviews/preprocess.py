"""From files of reviews to samples."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from components.checks.profile import CATEGORY, TIME
from components.checks.tables import Profiled
from components.datasets.amazon_reviews import META, REVIEWS
from components.datasets.amazon_reviews.lines import parse_items, parse_reviews
from components.datasets.definition import PreprocessJob, UserHistories
from components.datasets.histories.preprocess import Read, histories_from, samples_from
from components.datasets.histories.sorting import TICK, in_nanoseconds, without_kinds
from components.errors import KfrecError
from components.workflows.startup import import_ahead, start_fork_server_early
from components.workflows.text_blocks import RawReader
from components.workflows.times import TimeUnits

if TYPE_CHECKING:
    from components.workflows.key_runs import KeyRuns
    from components.workflows.quarantine import BadLine
    from components.workflows.text_blocks import Block

_REVIEWS = (
    Profiled("reviewerID", CATEGORY, counted=True),
    Profiled("asin", CATEGORY, counted=True),
    Profiled("unixReviewTime", TIME, unit=TICK),
)
_ITEMS = (Profiled("asin", CATEGORY), Profiled("category", CATEGORY))


def preprocess(job: PreprocessJob) -> Mapping[str, int]:
    """Writes the samples of all splits; returns counts of samples, users and reviews, and of lines dropped."""
    META.files(job.raw)  # which are read after the reviews
    import_ahead("components.datasets.histories.pipeline")
    return samples_from(job, _read)


def histories(job: PreprocessJob) -> UserHistories:
    """All items that every user reviewed; without the items' metadata."""
    return histories_from(job, _read)


def _read(job: PreprocessJob, runs: KeyRuns) -> Read:
    parameters, reviews_files, metadata_files = job.parameters, REVIEWS.files(job.raw), META.found(job.raw)
    reader = RawReader(job.folder / "quarantine", parameters.malformed_limit, parameters.longest_line)
    profiler = job.profiler.table("reviews", _REVIEWS, [column.name for column in _REVIEWS])
    units, names = TimeUnits(), ", ".join(path.name for path in reviews_files)

    def parse(block: Block) -> tuple[pa.Table, list[BadLine]]:
        table, bad = parse_reviews(block)
        return _in_nanoseconds(table, units, names), bad

    for reviews in reader.tables(reviews_files, parse, "reviews", "reading reviews", profiler):
        runs.add(without_kinds(reviews))
        if runs.rows / reader.share > parameters.reviews_per_partition:
            start_fork_server_early(parameters.workers, job.scheduler)
    if not runs.rows:
        raise KfrecError(f"{reviews_files[0]}: no reviews in it; check what download fetched")
    if units.are_days:
        raise KfrecError(f"{names}: unixReviewTime holds days as YYYYMMDD; give seconds since 1970")
    profiler = job.profiler.table("items", _ITEMS, ["asin"])
    of_items = partial(parse_items, columns=parameters.of_items)
    items = reader.tables(metadata_files, of_items, "item metadata", "reading metadata", profiler)
    metadata = (metadata_files or reviews_files)[0]
    return Read("amazon_reviews", "reviews", runs, items, reviews_files[0], metadata, lambda: reader.malformed_lines)


def _in_nanoseconds(reviews: pa.Table, units: TimeUnits, names: str) -> pa.Table:
    """The reviews with their times in nanoseconds; ``units`` collects the units that they had.

    Raises:
        KfrecError: the reviews of the files ``names`` have several.
    """
    times = reviews["unixReviewTime"].to_numpy()
    units.add(times)
    if units.mixed:
        raise KfrecError(f"{names}: unixReviewTime is in {units.mixed}; give all reviews one unit")
    place = reviews.schema.get_field_index("unixReviewTime")
    times = in_nanoseconds(times, int(units.per_second), "unixReviewTime")
    return reviews.set_column(place, reviews.schema.field(place), pa.array(times))
