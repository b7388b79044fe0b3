"""The three passes over the partitions: select users, encode their histories, write samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dask import delayed

from components.datasets.histories import encoding
from components.datasets.histories.catalogue import PairCounts, PopularityCounter, write_catalogue
from components.datasets.histories.filters import Amount, report
from components.datasets.histories.kinds import Kinds
from components.datasets.histories.negatives import pool_by_popularity, pool_by_time, recent_counts
from components.datasets.histories.parameters import CONTEMPORARY, EXCLUDE, KEEP, LAST_ITEM, NONE, POPULARITY
from components.datasets.histories.sample_files import write_samples
from components.datasets.histories.samples import samples_of
from components.datasets.histories.sorting import Histories, Selection, write_histories
from components.datasets.histories.splits import TEST, TRAIN, VALIDATION, Cuts, cuts_by_time
from components.errors import KfrecError
from components.progress import progress
from components.workflows.key_runs import KeyRange
from components.workflows.workers import Workers, in_order

if TYPE_CHECKING:
    from components.datasets.histories.parameters import PreprocessReviews


@dataclass(frozen=True)
class EncodedData:
    """All histories as ids.

    Attributes:
        cuts: moments of a split by time; None for the last item of each user.
        cardinalities: the largest id of uid, item and cat, in that order.
        vocabulary: "fitted", "kept", or "refitted" if too many values were out of vocabulary.
        out_of_vocabulary_rate: share of reviews of items outside the given vocabulary.
        sampling: how targets and negatives were chosen, for the metadata.
        unknown: users, events and items that the vocabulary lacks.
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


def select_histories(
    workers: Workers,
    partitions: Sequence[KeyRange],
    items: Path,
    metadata: Path,
    kinds: Kinds,
    parameters: PreprocessReviews,
    scratch: Path,
) -> tuple[list[Histories], dict[str, dict[str, int]]]:
    """The histories of users with enough reviews, one file for each partition that has any; and what filters left out.

    Raises:
        KfrecError: no user or training sample is left, or no item has a category.
    """
    task = delayed(write_histories, pure=False)
    shortest = parameters.shortest_sequence_for_user
    selection = Selection(kinds, shortest, parameters.split == LAST_ITEM, parameters.excludes_seen)
    tasks = [
        task(users, items, selection, scratch / f"histories-{index}.parquet") for index, users in enumerate(partitions)
    ]
    with progress("sorting histories", len(partitions), "partitions") as bar:
        results = in_order(workers, tasks, lambda number, histories: bar.advance())
    folder, longest = metadata.parent, max(histories.longest for histories in results)
    if longest < 2:
        raise KfrecError(
            f"{folder}: no user has two reviews, and a sample needs one before its target; check which ids are those "
            "of the users"
        )
    if longest < shortest:
        raise KfrecError(
            f"{folder}: no user has {shortest} reviews, the most active one has {longest}; "
            f"lower shortest_sequence_for_user to {longest} or less"
        )
    if parameters.split == LAST_ITEM and longest - 2 < parameters.shortest_sequence_for_training:
        raise KfrecError(
            f"{folder}: no training sample is left: the longest history has {longest} reviews, and a sample needs "
            f"{parameters.shortest_sequence_for_training} before its target and the test target after it; "
            f"lower shortest_sequence_for_training"
        )
    if not any(histories.with_category for histories in results):
        raise KfrecError(
            f"{metadata}: gives no reviewed item a category; is it the metadata of these reviews, "
            "with lists of lists under categories?"
        )
    filters = report((histories.filtered for histories in results), parameters)
    return [histories for histories in results if histories.path is not None], filters


def encode_histories(
    workers: Workers,
    histories: Sequence[Histories],
    earlier: encoding.Encoder | None,
    parameters: PreprocessReviews,
    output: Path,
    scratch: Path,
    raw: Path,
) -> EncodedData:
    """Encodes all histories, and writes the vocabulary and the workflow's description to the folder ``output``.

    Args:
        earlier: a fitted workflow to encode with; None fits a new one.
    """
    reviews = sum(part.reviews for part in histories)
    files = [part.path for part in histories if part.path]
    # The newest items are what a refit is for.
    limit = 0.0 if parameters.refitting else parameters.out_of_vocabulary_limit
    cuts = None if parameters.split == LAST_ITEM else cuts_by_time(files, parameters, raw)
    train_end = cuts.train_end if cuts else None
    with progress("fitting the vocabulary", reviews, "reviews") as bar:
        encoder, vocabulary, rate = earlier, "fitted", 0.0
        if earlier is not None:
            rate = encoding.out_of_vocabulary(earlier, files)
            vocabulary = "kept" if rate <= limit else "refitted"
            print(f"{rate:.2%} of the reviews are of unknown items (limit {limit:.2%}): vocabulary {vocabulary}")
        if encoder is None or vocabulary == "refitted":
            encoder = encoding.fit(workers, files, train_end, scratch / "fitted")
        cardinalities = encoding.write_vocabulary(encoder, output)
        bar.advance(reviews)

    outputs = [scratch / f"encoded-{index}.parquet" for index in range(len(histories))]
    counter = PopularityCounter()
    with progress("encoding", reviews, "reviews") as bar:

        def ended(number: int, result: tuple[PairCounts, encoding.Unknown]) -> None:
            counter.add(result[0])
            bar.advance(histories[number].reviews)

        task = delayed(encoding.write_encoded, pure=False)
        weighted = parameters.has_weights
        tasks = [task(path, encoder.workflow, train_end, weighted, to) for path, to in zip(files, outputs, strict=True)]
        unknown = encoding.amount_of([each for _, each in in_order(workers, tasks, ended)])
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
    encoding.write_item_counts(output, drawn, counted)
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
            **parameters.chosen_kinds,
            **({"weighted": True} if parameters.has_weights else {}),
            **(asdict(cuts) if cuts else {}),
        },
        unknown,
    )


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
    has_validation = encoded.cuts is not None and encoded.cuts.train_end < encoded.cuts.test_begin
    splits = [TRAIN, VALIDATION, TEST] if has_validation else [TRAIN, TEST]
    counts = {}
    with progress("writing samples", len(splits) * sum(encoded.reviews), "reviews") as bar:
        for split in splits:
            workflow = samples_of(split, parameters, encoded.cuts, encoded.pool)
            (output / split).mkdir()
            task = delayed(write_samples, pure=False)
            tasks = [
                task(path, workflow, output / split / f"part.{index}.parquet")
                for index, path in enumerate(encoded.histories)
            ]
            counts[split] = sum(in_order(workers, tasks, lambda number, _: bar.advance(encoded.reviews[number])))
            if not counts[split] and split == VALIDATION:
                (output / split).rmdir()
                print("no user has a new review between the two cuts, so there is no validation split", flush=True)
            elif not counts[split]:
                raise _no_samples(split, parameters, raw)
    return counts


def _no_samples(split: str, parameters: PreprocessReviews, raw: Path) -> KfrecError:
    shortest = parameters.shortest_sequence_for_training if split == TRAIN else 1
    new = " of an item that is new to the user" if parameters.excludes_seen else ""
    new += f" of the target_kinds {', '.join(kinds)}" if (kinds := parameters.chosen_kinds.get("target_kinds")) else ""
    if parameters.split == LAST_ITEM:
        return KfrecError(
            f"{raw}: no {split} sample is left: no user has a target{new} with {shortest} reviews before it"
        )
    side = "before" if split == TRAIN else "after"
    return KfrecError(
        f"{raw}: no {split} sample is left: no review {side} the cut{new} has {shortest} reviews of its user "
        f"before it; change test_reviews={parameters.test_reviews:g}, or set split=last_item"
    )
