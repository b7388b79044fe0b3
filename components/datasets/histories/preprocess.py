"""From what a data set has read to samples, or to the histories of all users.

In the order of the work: ``sorting`` sorts the reviews by user on disk and drops users with few of them, ``encoding``
turns names into ids, ``samples`` cuts histories into samples and ``sample_files`` writes them.

NVTabular takes two seconds to import, so modules that need it are imported in functions, after reading has begun.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.datasets.definition import READING, PreprocessJob, UserHistories
from components.datasets.histories.filters import FIRST_DAY, PASSES, report, without_days
from components.datasets.histories.kinds import EVERY_KIND, KIND, Kinds
from components.datasets.histories.parameters import LAST_ITEM
from components.datasets.histories.sample_files import SAMPLE
from components.datasets.histories.sorting import (
    NO_CATEGORY,
    read_items,
    told_column,
    user_histories,
    user_runs,
    write_items,
)
from components.datasets.parameters import PreprocessParameters
from components.feature_spec.event_columns import with_events
from components.feature_spec.item_columns import write_item_vectors
from components.feature_spec.positional import positional_spec, with_days, with_kind, with_weights
from components.feature_spec.spec import FILENAME
from components.parameters import as_plain, parameters_of
from components.progress import warn

if TYPE_CHECKING:
    import pyarrow as pa

    from components.datasets.histories import growing
    from components.datasets.histories.encoding import Encoder
    from components.workflows.key_runs import KeyRuns

# Share of the reviews that should be of items with a category.
_MANY = 0.95
# Share of the reviews that may have the time of the review before.
_FEW = 0.1
# Events that are sorted in memory at a time for the histories of their users.
_EVENTS = 500_000
# Parameters of the step that tell how raw files are read; its other ones tell how and where the step works.
_READING = {"malformed_limit", "longest_line"}


@dataclass(frozen=True)
class Read:
    """What was read from the raw files.

    Attributes:
        items: tables of the schema ``sorting.item_schema``, whose columns may also be lists, read as they are taken.
        reviews: a file of reviews, for messages.
        metadata: a file of categories, for messages.
        malformed: returns the number of refused lines, once ``items`` are taken.
    """

    dataset: str
    table: str
    runs: KeyRuns
    items: Iterable[pa.Table]
    reviews: Path
    metadata: Path
    malformed: Callable[[], int]
    kinds: Kinds = EVERY_KIND


# Reads all events of a job's raw files into runs.
Reader = Callable[[PreprocessJob, "KeyRuns"], Read]


def samples_from(job: PreprocessJob, read: Reader) -> Mapping[str, int]:
    """Writes the samples of all splits; returns counts of samples, users and reviews, and of lines dropped."""
    with user_runs(job.scratch, job.parameters.event_columns) as runs:
        earlier, grown = earlier_vocabulary(job.parameters, job.scratch / "given")
        found = read(job, runs)
        items = job.scratch / "items.arrow"
        write_items(found.items, items)
        job.profiler.judge()
        return write_data(job, found, items, earlier, grown)


def histories_from(job: PreprocessJob, read: Reader) -> UserHistories:
    """All events of every user; see ``components.datasets.definition.DatasetDefinition.histories``."""
    columns = job.parameters.event_columns
    # Newer events need not tell of items.
    job = replace(job, parameters=replace(job.parameters, item_columns=""))
    with user_runs(job.scratch, columns) as runs:
        kinds = read(job, runs).kinds
        for users in runs.partitions_of(_EVENTS):
            yield user_histories(users, kinds, job.parameters.split == LAST_ITEM, columns, job.since)


def write_data(
    job: PreprocessJob, read: Read, items: Path, earlier: Encoder | None, grown: growing.Earlier | None
) -> Mapping[str, int]:
    """Writes the samples of all splits, their specification and the vocabulary; see ``preprocess``.

    Args:
        items: Arrow file of ``sorting.write_items``.
    """
    from components.datasets.histories.best_auc import best_auc
    from components.datasets.histories.catalogue import write_titles
    from components.datasets.histories.pipeline import (
        count_left_out,
        encode_histories,
        select_histories,
        write_splits,
    )
    from components.datasets.histories.samples import weight_column
    from components.workflows.workers import dask_workers

    parameters, scratch = job.parameters, job.scratch
    partitions = read.runs.partitions_of(parameters.reviews_per_partition)
    with dask_workers(parameters.workers, job.scheduler, len(partitions)) as workers:
        histories, amounts = select_histories(
            workers, partitions, items, read.metadata, read.kinds, parameters, scratch
        )
        parameters = parameters.settled(amounts[PASSES].events, amounts[FIRST_DAY].events)
        filters = report(amounts if parameters.ends_with_day else without_days(amounts), parameters)
        reviews = sum(part.reviews for part in histories)
        _warn_of_lacking(reviews, sum(part.with_category for part in histories))
        if parameters.split == LAST_ITEM:
            _warn_of_ties(reviews, sum(part.tied for part in histories))
        encoded = encode_histories(
            workers, histories, read.kinds, earlier, grown, parameters, job.folder, scratch, read.reviews
        )
        write_titles(read_items(items), earlier.folder if earlier else None, job.folder)
        left_out = None if encoded.cuts else count_left_out(workers, encoded, parameters)
        samples = write_splits(workers, encoded, parameters, job.output, read.reviews)
    if parameters.of_items:
        kept = earlier.folder if earlier and encoded.vocabulary != "refitted" else None
        listed = read_items(items)
        columns = {name: listed[told_column(name)] for name in parameters.of_items}
        write_item_vectors(listed["asin"], columns, job.folder, kept)

    noted: dict[str, Any] = {
        "dataset": read.dataset,
        "vocabulary": encoded.vocabulary,
        "out_of_vocabulary_rate": encoded.out_of_vocabulary_rate,
        "raw_rows": job.raw.rows.get(read.table, read.runs.rows),
        "sampling": encoded.sampling,
        "filters": filters | {"unknown": asdict(encoded.unknown)},
        READING: _reading(parameters),
        **encoded.growth,
    }
    if left_out is not None:
        noted["left_out"] = left_out
    best = None if job.generation is None or not parameters.has_negatives else best_auc(job.generation, parameters)
    if best is not None:
        noted["best"] = {"auc": best}
    spec = positional_spec(list(encoded.cardinalities.items()), 1, SAMPLE.names, job.folder, {"encoding": noted})
    if parameters.has_days:
        spec = with_days(spec, "days_sequence")
    if parameters.event_columns:
        spec = with_events(spec, encoded.columns)
    if weights := weight_column(parameters, encoded.night):
        spec = with_weights(spec, weights, parameters.has_windows)
    if encoded.has_kinds:
        read.kinds.write(job.folder)
        spec = with_kind(spec, KIND, len(read.kinds.names))
    (job.folder / FILENAME).write_text(spec.to_yaml())
    return {
        **samples,
        "users": sum(part.users for part in histories),
        "events": reviews,
        "malformed_lines": read.malformed(),
    }


def _reading(parameters: Any) -> dict[str, Any]:
    """The data set's own parameters and those of reading, by which its model's users have newer events read."""
    of_step = {parameter.name for parameter in parameters_of(PreprocessParameters)} - _READING
    return {name: value for name, value in as_plain(parameters).items() if name not in of_step}


def _warn_of_lacking(reviews: int, with_category: int) -> None:
    """Tells how many reviews are of items without a category, if many are."""
    if with_category < _MANY * reviews:
        warn(
            "preprocess",
            "items without a category",
            f"{reviews - with_category:,} of {reviews:,} events are of items without a category in the metadata; "
            f"these items share the category {NO_CATEGORY}",
        )


def _warn_of_ties(reviews: int, tied: int) -> None:
    """Tells how many reviews are ordered by their items' ids, if many are."""
    if tied > _FEW * reviews:
        warn(
            "preprocess",
            "ties in time",
            f"{tied:,} of {reviews:,} events have the time of the user's event before them; with split={LAST_ITEM} "
            "such events are in the order of their items' ids, which a model of the next item can learn: its score is "
            "then too high; split=time orders them at random",
        )


def earlier_vocabulary(parameters: Any, scratch: Path) -> tuple[Encoder | None, growing.Earlier | None]:
    """The workflow to reuse, if any, and what its vocabulary grows from, if it does; opened before the long work, so
    that errors show early."""
    if not parameters.workflow:
        return None, None
    from components.datasets.histories.encoding import earlier_encoder
    from components.datasets.histories.growing import require_growing

    encoder, folder = earlier_encoder(parameters.workflow, scratch, parameters.event_columns)
    return encoder, require_growing(folder, parameters.workflow) if parameters.grows else None
