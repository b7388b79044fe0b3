"""From reviews to samples.

In the order of the work: ``raw_files`` finds the input, ``reviews`` and ``items`` parse it, ``user_runs`` sorts it by
user on disk, ``histories`` keeps the users with enough reviews, ``encoding`` turns names into ids, ``samples`` cuts
histories into samples and ``sample_files`` writes them.

NVTabular takes two seconds to import, so modules that need it are imported in functions, after reading has begun.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from components.checks.profile import CATEGORY, TIME
from components.checks.tables import Profiled
from components.datasets.amazon_reviews.histories import NO_CATEGORY
from components.datasets.amazon_reviews.items import parse_items, write_items
from components.datasets.amazon_reviews.layout import SAMPLE
from components.datasets.amazon_reviews.parameters import LAST_ITEM
from components.datasets.amazon_reviews.raw_files import META, REVIEWS
from components.datasets.amazon_reviews.reviews import parse_reviews
from components.datasets.amazon_reviews.user_runs import user_runs
from components.datasets.definition import PreprocessJob
from components.errors import KfrecError
from components.feature_spec.positional import positional_spec
from components.feature_spec.spec import FILENAME
from components.progress import warn
from components.workflows import fork_server
from components.workflows.import_ahead import import_ahead
from components.workflows.reading import RawReader
from components.workflows.time_units import TimeUnits

if TYPE_CHECKING:
    from components.datasets.amazon_reviews.encoding import Encoder
    from components.workflows.key_runs import KeyRuns
    from components.workflows.quarantine import BadLine
    from components.workflows.text_blocks import Block

_REVIEWS = (
    Profiled("reviewerID", CATEGORY, counted=True),
    Profiled("asin", CATEGORY, counted=True),
    Profiled("unixReviewTime", TIME),
)
# Share of the reviews that should be of items with a category.
_MANY = 0.95
# Share of the reviews that may have the time of the review before.
_FEW = 0.1
_ITEMS = (Profiled("asin", CATEGORY), Profiled("category", CATEGORY))


def preprocess(job: PreprocessJob) -> Mapping[str, int]:
    """Writes the samples of all splits.

    Returns:
        Counts: samples of each split, users and reviews kept, and lines dropped.

    Raises:
        KfrecError: bad input.
    """
    parameters, scratch, scheduler = job.parameters, job.scratch, job.scheduler
    reviews_files, metadata_files = REVIEWS.files(job.raw), META.files(job.raw)
    import_ahead("components.datasets.amazon_reviews.pipeline")
    with user_runs(scratch) as runs:
        earlier = earlier_vocabulary(parameters, scratch / "given")
        reader = RawReader(job.folder / "quarantine", parameters.malformed_limit, parameters.longest_line)
        profiler = job.profiler.table("reviews", _REVIEWS, [column.name for column in _REVIEWS])
        units = TimeUnits()

        def parse(block: Block) -> tuple[pa.Table, list[BadLine]]:
            table, bad = parse_reviews(block)
            return _in_seconds(table, units), bad

        for reviews in reader.tables(reviews_files, parse, "reviews", "reading reviews", profiler):
            runs.add(reviews)
            if runs.rows / reader.share > parameters.reviews_per_partition:
                fork_server.start_early(parameters.workers, scheduler)
        if not runs.rows:
            raise KfrecError(f"{reviews_files[0]}: no reviews in it; check what download fetched")
        names = ", ".join(path.name for path in reviews_files)
        if units.are_days:
            raise KfrecError(f"{names}: unixReviewTime holds days as YYYYMMDD; give seconds since 1970")
        if units.mixed:
            raise KfrecError(f"{names}: unixReviewTime is in {units.mixed}; give all reviews one unit")
        items = scratch / "items.arrow"
        profiler = job.profiler.table("items", _ITEMS, ["asin"])
        write_items(reader.tables(metadata_files, parse_items, "item metadata", "reading metadata", profiler), items)
        job.profiler.judge()
        read = Read(
            "amazon_reviews", "reviews", runs, items, reviews_files[0], metadata_files[0], reader.malformed_lines
        )
        return write_data(job, read, earlier)


def _in_seconds(reviews: pa.Table, units: TimeUnits) -> pa.Table:
    """The reviews with their times in seconds; ``units`` collects the units that they had."""
    times = reviews["unixReviewTime"].to_numpy()
    units.add(times)
    if units.per_second == 1:
        return reviews
    place = reviews.schema.get_field_index("unixReviewTime")
    return reviews.set_column(place, reviews.schema.field(place), pa.array(times // int(units.per_second)))


@dataclass(frozen=True)
class Read:
    """What was read from the raw files.

    Attributes:
        dataset: name of the data set.
        table: kind of raw files that holds the reviews.
        runs: the reviews, by user.
        items: Arrow file of the schema ``items.ITEM``.
        reviews: a file of reviews, for messages.
        metadata: a file of categories, for messages.
        malformed: lines that were dropped.
    """

    dataset: str
    table: str
    runs: KeyRuns
    items: Path
    reviews: Path
    metadata: Path
    malformed: int


def write_data(job: PreprocessJob, read: Read, earlier: Encoder | None) -> Mapping[str, int]:
    """Writes the samples of all splits, their specification and the vocabulary; see ``preprocess``."""
    from components.datasets.amazon_reviews.pipeline import encode_histories, select_histories, write_splits
    from components.datasets.amazon_reviews.synthetic.best import best_auc
    from components.workflows.workers import dask_workers

    parameters, scratch = job.parameters, job.scratch
    partitions = read.runs.partitions_of(parameters.reviews_per_partition)
    with dask_workers(parameters.workers, job.scheduler, len(partitions)) as workers:
        histories = select_histories(workers, partitions, read.items, read.metadata, parameters, scratch)
        reviews = sum(part.reviews for part in histories)
        _warn_of_lacking(reviews, sum(part.with_category for part in histories))
        if parameters.split == LAST_ITEM:
            _warn_of_ties(reviews, sum(part.tied for part in histories))
        encoded = encode_histories(workers, histories, earlier, parameters, job.folder, scratch, read.reviews)
        samples = write_splits(workers, encoded, parameters, job.output, read.reviews)

    noted: dict[str, Any] = {
        "dataset": read.dataset,
        "vocabulary": encoded.vocabulary,
        "out_of_vocabulary_rate": encoded.out_of_vocabulary_rate,
        "raw_rows": job.raw.rows.get(read.table, read.runs.rows),
        "sampling": encoded.sampling,
    }
    best = None if job.generation is None or not parameters.has_negatives else best_auc(job.generation, parameters)
    if best is not None:
        noted["best"] = {"auc": best}
    spec = positional_spec(list(encoded.cardinalities.items()), 1, SAMPLE.names, job.folder, {"encoding": noted})
    (job.folder / FILENAME).write_text(spec.to_yaml())
    return {
        **samples,
        "users": sum(part.users for part in histories),
        "reviews": reviews,
        "malformed_lines": read.malformed,
    }


def _warn_of_lacking(reviews: int, with_category: int) -> None:
    """Tells how many reviews are of items without a category, if many are."""
    if with_category < _MANY * reviews:
        warn(
            "preprocess",
            "items without a category",
            f"{reviews - with_category:,} of {reviews:,} reviews are of items without a category in the metadata; "
            f"these items share the category {NO_CATEGORY}",
        )


def _warn_of_ties(reviews: int, tied: int) -> None:
    """Tells how many reviews are ordered by their items' ids, if many are."""
    if tied > _FEW * reviews:
        warn(
            "preprocess",
            "ties in time",
            f"{tied:,} of {reviews:,} reviews have the time of the user's review before them; with split={LAST_ITEM} "
            "such reviews are in the order of their items' ids, which a model of the next item can learn: its score is "
            "then too high; split=time orders them at random",
        )


def earlier_vocabulary(parameters: Any, scratch: Path) -> Encoder | None:
    """The workflow to reuse, if any; opened before the long work, so that errors show early."""
    if not parameters.workflow:
        return None
    from components.datasets.amazon_reviews.encoding import earlier_encoder

    return earlier_encoder(parameters.workflow, scratch)
