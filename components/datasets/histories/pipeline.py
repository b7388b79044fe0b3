"""The three passes over the partitions: select users, encode their histories, write samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dask import delayed

from components.datasets.histories import encoding, growing
from components.datasets.histories.catalogue import PairCounts, PopularityCounter, counts_of_last, write_catalogue
from components.datasets.histories.event_ids import ColumnIds, fit_columns
from components.datasets.histories.filters import Amount, amounts_of
from components.datasets.histories.kinds import Kinds
from components.datasets.histories.negatives import pool_by_popularity, pool_by_time, recent_counts
from components.datasets.histories.parameters import (
    CONTEMPORARY,
    EXCLUDE,
    KEEP,
    LAST_ITEM,
    NONE,
    POPULARITY,
    TIME,
    WITH_EVENT,
)
from components.datasets.histories.sample_files import write_samples
from components.datasets.histories.samples import left_out_of, samples_of, targets_of
from components.datasets.histories.sorting import Histories, Selection, vocabulary_rows, write_histories
from components.datasets.histories.splits import LEFT_OUT, TEST, TRAIN, VALIDATION, Cuts, Night, cuts_by_time
from components.errors import KfrecError
from components.feature_spec.event_columns import EventColumn
from components.feature_spec.living import GROWN, Living
from components.feature_spec.vocabulary import NVTABULAR_UNKNOWN
from components.progress import progress
from components.workflows.key_runs import KeyRange
from components.workflows.workers import Workers, in_order

if TYPE_CHECKING:
    from components.datasets.histories.parameters import PreprocessReviews

# The targets that do not train, by their number, for messages.
_AFTER = {1: "the test target", 2: "the validation and test targets"}


@dataclass(frozen=True)
class EncodedData:
    """All histories as ids.

    Attributes:
        cuts: moments of a split by time; None for the last items of each user.
        cardinalities: the largest id of uid, item and cat, in that order, or their capacity where they grow.
        vocabulary: "fitted", "kept", "grown", or "refitted" if too many values were out of vocabulary.
        out_of_vocabulary_rate: share of reviews of items outside the given vocabulary.
        sampling: how targets and negatives were chosen, for the metadata.
        unknown: users, events and items that the vocabulary lacks.
        columns: of the events, to their largest ids.
        night: what trains, if it is not everything.
        growth: what came and went, for the metadata.
        has_kinds: whether the histories have the kinds of events.
    """

    histories: tuple[Path, ...]
    reviews: tuple[int, ...]
    pool: Path
    cuts: Cuts | None
    cardinalities: dict[str, int]
    vocabulary: str
    out_of_vocabulary_rate: float
    sampling: dict[str, Any]
    unknown: Amount
    columns: dict[EventColumn, int]
    night: Night | None
    growth: dict[str, Any]
    has_kinds: bool


def select_histories(
    workers: Workers,
    partitions: Sequence[KeyRange],
    items: Path,
    metadata: Path,
    kinds: Kinds,
    parameters: PreprocessReviews,
    scratch: Path,
) -> tuple[list[Histories], list[Amount]]:
    """The histories of users with enough reviews, a file for each partition that has any; and what filters leave out.

    Raises:
        KfrecError: no user or training sample is left, or no item has a category.
    """
    task = delayed(write_histories, pure=False)
    shortest = parameters.shortest_sequence_for_user
    selection = Selection(
        kinds, shortest, parameters.split == LAST_ITEM, parameters.excludes_seen, parameters.holds_out_validation
    )
    tasks = [
        task(users, items, selection, scratch / f"histories-{index}.parquet") for index, users in enumerate(partitions)
    ]
    with progress("sorting histories", len(partitions), "partitions") as bar:
        results = in_order(workers, tasks, lambda number, histories: bar.advance())
    folder, longest = metadata.parent, max(histories.longest for histories in results)
    if longest < 2:
        raise KfrecError(
            f"{folder}: no user has two events, and a sample needs one before its target; check which ids are those "
            "of the users"
        )
    if longest < shortest:
        raise KfrecError(
            f"{folder}: no user has {shortest} events, the most active one has {longest}; "
            f"lower shortest_sequence_for_user to {longest} or less"
        )
    held_out = parameters.held_out
    if held_out and longest - 1 - held_out < parameters.shortest_sequence_for_training:
        raise KfrecError(
            f"{folder}: no training sample is left: the longest history has {longest} events, and a sample needs "
            f"{parameters.shortest_sequence_for_training} before its target and {_AFTER[held_out]} after it; "
            f"lower shortest_sequence_for_training"
        )
    if not any(histories.with_category for histories in results):
        raise KfrecError(
            f"{metadata}: gives no reviewed item a category; is it the metadata of these reviews, "
            "with lists of lists under categories?"
        )
    kept = [histories for histories in results if histories.path is not None]
    return kept, amounts_of(histories.filtered for histories in results)


def encode_histories(
    workers: Workers,
    histories: Sequence[Histories],
    kinds: Kinds,
    earlier: encoding.Encoder | None,
    grown: growing.Earlier | None,
    parameters: PreprocessReviews,
    output: Path,
    scratch: Path,
    raw: Path,
) -> EncodedData:
    """Encodes all histories, and writes the vocabulary and the workflow's description to the folder ``output``.

    Args:
        earlier: a fitted workflow to encode with; None fits a new one.
        grown: the counters of its vocabulary, if it grows.
    """
    reviews = sum(part.reviews for part in histories)
    files = [part.path for part in histories if part.path]
    # The newest items are what a refit is for.
    limit = 0.0 if parameters.refitting else parameters.out_of_vocabulary_limit
    begin = grown.end if grown else None
    cuts = cuts_by_time(files, parameters, raw, begin) if parameters.split == TIME else None
    train_end = cuts.train_end if cuts else None
    night: Night | None = None
    living: dict[str, Living] = {}
    growth: dict[str, Any] = {}
    with progress("fitting the vocabulary", reviews, "events") as bar:
        encoder, vocabulary, rate = earlier, "fitted", 0.0
        if earlier is not None and grown is not None and train_end is not None:
            night, replayed = growing.night_of(workers, files, grown.end, train_end, parameters)
            seen = growing.count(workers, files, grown.end, train_end)
            encoder, living, turnover = growing.grow(earlier, grown, seen, train_end, parameters, scratch / "grown")
            vocabulary, rate = GROWN, encoding.out_of_vocabulary(encoder, files)
            growth = vars(turnover) | {"replayed": replayed}
        elif earlier is not None:
            rate = encoding.out_of_vocabulary(earlier, files)
            vocabulary = "kept" if rate <= limit else "refitted"
            print(f"{rate:.2%} of the events are of unknown items (limit {limit:.2%}): vocabulary {vocabulary}")
        if encoder is None or vocabulary == "refitted":
            encoder = encoding.fit(workers, files, train_end, scratch / "fitted")
        if parameters.grows and night is None and train_end is not None:
            seen = growing.count(workers, files, None, train_end)
            living = growing.begin(encoder, seen, train_end, parameters.vocabulary_slack)
        cardinalities = encoding.write_vocabulary(encoder, output) | growing.write(living, output)
        columns = _fitted_columns(parameters, earlier, vocabulary in ("kept", GROWN), files, train_end)
        for each in columns:
            each.write(output)
        bar.advance(reviews)

    outputs = [scratch / f"encoded-{index}.parquet" for index in range(len(histories))]
    counter = PopularityCounter()
    with progress("encoding", reviews, "events") as bar:

        def ended(number: int, result: tuple[PairCounts, encoding.Unknown]) -> None:
            counter.add(result[0])
            bar.advance(histories[number].reviews)

        task = delayed(encoding.write_encoded, pure=False)
        weighted, has_kinds = parameters.has_weights, kinds.divide_targets
        tasks = [
            task(path, encoder.workflow, encoder.rows, columns, train_end, weighted, has_kinds, to)
            for path, to in zip(files, outputs, strict=True)
        ]
        unknown = encoding.amount_of([each for _, each in in_order(workers, tasks, ended)])
    if parameters.grows and cuts is not None:
        growth |= {"unknown_share": growing.unknown_share(outputs, cuts.test_begin, NVTABULAR_UNKNOWN)}
    if unknown.events:
        print(f"{unknown} are unknown: the vocabulary, of what trains, lacks them", flush=True)
    popularity = counter.popularity()
    largest = cardinalities["item"]
    write_catalogue(popularity, encoder.catalogue, largest, output)
    counted = popularity.by_item(largest)
    if parameters.is_contemporary:
        pool = pool_by_time(outputs, parameters.has_weights)
        end = train_end if train_end is not None else int(pool.times[-1]) + 1
        drawn = recent_counts(pool, largest, end, parameters.window)
    else:
        pool, drawn = pool_by_popularity(popularity), counted
    pool.save(scratch / "pool")
    recent = counts_of_last(outputs, largest, train_end, parameters.recent, parameters.has_weights)
    encoding.write_item_counts(output, drawn, counted, recent)
    return EncodedData(
        tuple(outputs),
        tuple(part.reviews for part in histories),
        scratch / "pool",
        cuts,
        cardinalities,
        vocabulary,
        rate,
        {
            "split": parameters.split,
            "negatives": _negatives(parameters),
            "seen_items": EXCLUDE if parameters.excludes_seen else KEEP,
            "history_ends": parameters.history_ends,
            **parameters.chosen_kinds,
            **({"weighted": True} if parameters.has_weights else {}),
            **(asdict(cuts) if cuts else {}),
        },
        unknown,
        {each.column: each.largest for each in columns},
        night,
        growth,
        kinds.divide_targets,
    )


def _fitted_columns(
    parameters: PreprocessReviews,
    earlier: encoding.Encoder | None,
    is_kept: bool,
    histories: Sequence[Path],
    before: int | None,
) -> list[ColumnIds]:
    """The columns of the events; an earlier vocabulary keeps its intervals, which have no values to be unknown."""
    kept = {
        column.field: earlier.columns[column.field]
        for column in parameters.event_columns
        if earlier is not None and column.field in earlier.columns and (is_kept or column.is_number)
    }
    return fit_columns(parameters.event_columns, kept, histories, vocabulary_rows(before))


def _negatives(parameters: PreprocessReviews) -> str:
    if not parameters.has_negatives:
        return NONE
    return CONTEMPORARY if parameters.is_contemporary else POPULARITY


def write_splits(
    workers: Workers, encoded: EncodedData, parameters: PreprocessReviews, output: Path, raw: Path
) -> dict[str, int]:
    """Writes SPLIT/part.N.parquet below ``output``, N being the partition.

    Returns:
        Samples per split; a split by time has a split validation if it is not empty.

    Raises:
        KfrecError: a split has no samples.
    """
    cuts = encoded.cuts
    has_validation = cuts.train_end < cuts.test_begin if cuts else parameters.holds_out_validation
    splits = [TRAIN, VALIDATION, TEST] if has_validation else [TRAIN, TEST]
    counts = {}
    with progress("writing samples", len(splits) * sum(encoded.reviews), "events") as bar:
        for split in splits:
            night = encoded.night if split == TRAIN else None
            workflow = samples_of(split, parameters, encoded.cuts, encoded.pool, encoded.has_kinds, encoded.night)
            targets = targets_of(split, parameters, encoded.cuts)
            (output / split).mkdir()
            task = delayed(write_samples, pure=False)
            tasks = [
                task(path, workflow, targets, night, output / split / f"part.{index}.parquet")
                for index, path in enumerate(encoded.histories)
            ]
            counts[split] = sum(in_order(workers, tasks, lambda number, _: bar.advance(encoded.reviews[number])))
            if not counts[split] and split == VALIDATION:
                (output / split).rmdir()
                where = "between the two cuts" if cuts else "before the last one"
                print(f"no user has a new event {where}, so there is no validation split", flush=True)
            elif not counts[split]:
                raise _no_samples(split, parameters, raw)
    return counts


def count_left_out(workers: Workers, encoded: EncodedData, parameters: PreprocessReviews) -> dict[str, int]:
    """Prints what keeps last items of users from the test; their numbers by reason of ``splits.LEFT_OUT``."""
    targets = targets_of(TEST, parameters, encoded.cuts)
    task = delayed(left_out_of, pure=False)
    tasks = [task(path, targets, parameters.ends_with_day) for path in encoded.histories]
    numbers = sum(in_order(workers, tasks)).tolist()
    found = dict(zip(LEFT_OUT, numbers, strict=True))
    told = ", ".join(f"{found[reason]:,} {why}" for reason, why in LEFT_OUT.items() if found[reason])
    if told:
        print(f"{sum(numbers):,} last events do not test: {told}", flush=True)
    return found


def _no_samples(split: str, parameters: PreprocessReviews, raw: Path) -> KfrecError:
    shortest = parameters.shortest_sequence_for_training if split == TRAIN else 1
    new = " of an item that is new to the user" if parameters.excludes_seen else ""
    new += f" of the target_kinds {', '.join(kinds)}" if (kinds := parameters.chosen_kinds.get("target_kinds")) else ""
    before, remedy = "before it", ""
    if parameters.ends_with_day:
        before, remedy = "on the days before it", f"; set history_ends={WITH_EVENT}"
    if parameters.split != TIME:
        return KfrecError(
            f"{raw}: no {split} sample is left: no user has a target{new} with {shortest} events {before}{remedy}"
        )
    side = "before" if split == TRAIN else "after"
    remedy = remedy or f"; change test_reviews={parameters.test_reviews:g}, or set split=last_item"
    return KfrecError(
        f"{raw}: no {split} sample is left: no event {side} the cut{new} has {shortest} events of its user "
        f"{before}{remedy}"
    )
