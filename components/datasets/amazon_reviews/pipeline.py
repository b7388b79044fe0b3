"""The three passes over the partitions: select users, encode their histories, write samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dask import delayed

from components.datasets.amazon_reviews import encoding, samples
from components.datasets.amazon_reviews.catalogue import write_catalogue
from components.datasets.amazon_reviews.histories import Histories, write_histories
from components.datasets.amazon_reviews.popularity import PairCounts, PopularityCounter
from components.datasets.amazon_reviews.sample_files import write_samples
from components.errors import KfrecError
from components.progress import progress
from components.workflows.key_runs import KeyRange
from components.workflows.workers import Workers, in_order

if TYPE_CHECKING:
    from components.datasets.amazon_reviews.parameters import PreprocessReviews


@dataclass(frozen=True)
class EncodedData:
    """All histories as ids.

    Attributes:
        histories: one file per partition.
        reviews: reviews in each file.
        popularity: folder of the sampling distribution of negatives.
        cardinalities: the largest id of uid, item and cat, in that order.
        vocabulary: "fitted", "kept", or "refitted" if too many values were out of vocabulary.
        out_of_vocabulary_rate: share of reviews of items outside the given vocabulary.
    """

    histories: tuple[Path, ...]
    reviews: tuple[int, ...]
    popularity: Path
    cardinalities: dict[str, int]
    vocabulary: str
    out_of_vocabulary_rate: float


def select_histories(
    workers: Workers,
    partitions: Sequence[KeyRange],
    items: Path,
    metadata: Path,
    parameters: PreprocessReviews,
    scratch: Path,
) -> list[Histories]:
    """The histories of users with enough reviews; one file for each partition that has any.

    Raises:
        KfrecError: no user or training sample is left, or no item has a category.
    """
    task = delayed(write_histories, pure=False)
    shortest = parameters.shortest_sequence_for_user
    tasks = [
        task(users, items, shortest, scratch / f"histories-{index}.parquet") for index, users in enumerate(partitions)
    ]
    with progress("sorting histories", len(partitions), "partitions") as bar:
        found = in_order(workers, tasks, lambda place, histories: bar.advance())
    folder, longest = metadata.parent, max(histories.longest for histories in found)
    if longest < shortest:
        raise KfrecError(
            f"{folder}: no user has {shortest} reviews, the most active one has {longest}; "
            f"lower shortest_sequence_for_user to {longest} or less"
        )
    if longest - 2 < parameters.shortest_sequence_for_training:
        raise KfrecError(
            f"{folder}: no training sample is left: the longest history has {longest} reviews, and a sample needs "
            f"{parameters.shortest_sequence_for_training} before its target and the test target after it; "
            f"lower shortest_sequence_for_training"
        )
    if not any(histories.with_category for histories in found):
        raise KfrecError(
            f"{metadata}: gives no reviewed item a category; is it the metadata of these reviews, "
            "with lists of lists under categories?"
        )
    return [histories for histories in found if histories.path is not None]


def encode_histories(
    workers: Workers,
    histories: Sequence[Histories],
    given: encoding.Encoder | None,
    limit: float,
    output: Path,
    scratch: Path,
) -> EncodedData:
    """Encodes all histories, and writes the vocabulary and the workflow's description to the folder ``output``.

    Args:
        workers: run the tasks.
        histories: one for each partition.
        given: a fitted workflow to encode with; None fits a new one.
        limit: out-of-vocabulary rate above which a new workflow is fitted.
        output: the artifact's folder.
        scratch: folder for the encoded histories.
    """
    reviews = sum(part.reviews for part in histories)
    files = [part.path for part in histories if part.path]
    with progress("fitting the vocabulary", reviews, "reviews") as bar:
        encoder, vocabulary, rate = given, "fitted", 0.0
        if given is not None:
            rate = encoding.out_of_vocabulary(given, files)
            vocabulary = "kept" if rate <= limit else "refitted"
            print(f"{rate:.2%} of the reviews are of unknown items (limit {limit:.2%}): vocabulary {vocabulary}")
        if encoder is None or vocabulary == "refitted":
            encoder = encoding.fit(workers, files, scratch / "fitted")
        cardinalities = encoding.write_vocabulary(encoder, output)
        bar.advance(reviews)

    outputs = [scratch / f"encoded-{index}.parquet" for index in range(len(histories))]
    counter = PopularityCounter()
    with progress("encoding", reviews, "reviews") as bar:

        def ended(place: int, popularity: PairCounts) -> None:
            counter.add(popularity)
            bar.advance(histories[place].reviews)

        task = delayed(encoding.write_encoded, pure=False)
        tasks = [task(path, encoder.workflow, to) for path, to in zip(files, outputs, strict=True)]
        in_order(workers, tasks, ended)
    popularity = counter.popularity()
    popularity.save(scratch / "popularity")
    write_catalogue(popularity, encoder.catalogue, cardinalities["item"], output)
    return EncodedData(
        tuple(outputs),
        tuple(part.reviews for part in histories),
        scratch / "popularity",
        cardinalities,
        vocabulary,
        rate,
    )


def write_splits(workers: Workers, encoded: EncodedData, parameters: PreprocessReviews, output: Path) -> dict[str, int]:
    """Writes train/part.N.parquet and test/part.N.parquet below ``output``, N being the partition.

    Returns:
        Samples per split.
    """
    counts = {}
    with progress("writing samples", 2 * sum(encoded.reviews), "reviews") as bar:
        for split, workflow in (
            ("train", samples.train_samples(parameters, encoded.popularity)),
            ("test", samples.test_samples(parameters, encoded.popularity)),
        ):
            (output / split).mkdir()
            task = delayed(write_samples, pure=False)
            tasks = [
                task(path, workflow, output / split / f"part.{index}.parquet")
                for index, path in enumerate(encoded.histories)
            ]
            counts[split] = sum(in_order(workers, tasks, lambda place, _: bar.advance(encoded.reviews[place])))
    return counts
