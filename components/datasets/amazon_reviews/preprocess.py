"""From files of reviews to samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from components.checks.profile import CATEGORY, TIME
from components.checks.tables import Profiled
from components.datasets.amazon_reviews import META, REVIEWS
from components.datasets.amazon_reviews.lines import parse_items, parse_reviews
from components.datasets.definition import PreprocessJob
from components.datasets.histories.preprocess import Read, earlier_vocabulary, write_data
from components.datasets.histories.sorting import TICK, in_nanoseconds, user_runs, without_kinds, write_items
from components.errors import KfrecError
from components.workflows.startup import import_ahead, start_fork_server_early
from components.workflows.text_blocks import RawReader
from components.workflows.times import TimeUnits

if TYPE_CHECKING:
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
    parameters, scratch, scheduler = job.parameters, job.scratch, job.scheduler
    reviews_files, metadata_files = REVIEWS.files(job.raw), META.files(job.raw)
    import_ahead("components.datasets.histories.pipeline")
    with user_runs(scratch) as runs:
        earlier = earlier_vocabulary(parameters, scratch / "given")
        reader = RawReader(job.folder / "quarantine", parameters.malformed_limit, parameters.longest_line)
        profiler = job.profiler.table("reviews", _REVIEWS, [column.name for column in _REVIEWS])
        units, names = TimeUnits(), ", ".join(path.name for path in reviews_files)

        def parse(block: Block) -> tuple[pa.Table, list[BadLine]]:
            table, bad = parse_reviews(block)
            return _in_nanoseconds(table, units, names), bad

        for reviews in reader.tables(reviews_files, parse, "reviews", "reading reviews", profiler):
            runs.add(without_kinds(reviews))
            if runs.rows / reader.share > parameters.reviews_per_partition:
                start_fork_server_early(parameters.workers, scheduler)
        if not runs.rows:
            raise KfrecError(f"{reviews_files[0]}: no reviews in it; check what download fetched")
        if units.are_days:
            raise KfrecError(f"{names}: unixReviewTime holds days as YYYYMMDD; give seconds since 1970")
        items = scratch / "items.arrow"
        profiler = job.profiler.table("items", _ITEMS, ["asin"])
        write_items(reader.tables(metadata_files, parse_items, "item metadata", "reading metadata", profiler), items)
        job.profiler.judge()
        read = Read(
            "amazon_reviews", "reviews", runs, items, reviews_files[0], metadata_files[0], reader.malformed_lines
        )
        return write_data(job, read, earlier)


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
