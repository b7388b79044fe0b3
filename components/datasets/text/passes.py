"""The passes over the partitions: count words, write samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random

from dask import delayed

from components.datasets.text.documents import Partition
from components.datasets.text.packing import Packing
from components.feature_spec.spec import TEST, TRAIN
from components.progress import progress
from components.text.counting import WordCounts, count_words, write_counts
from components.text.sequences import sequences
from components.text.vocabulary_choice import Settled
from components.text.wordpiece import WordPiece
from components.text.writing import write_lists
from components.workflows.workers import Workers, in_order


@dataclass(frozen=True)
class Division:
    """Which documents are tested on.

    Attributes:
        test_below: documents with a draw below this are test documents.
    """

    seed: int
    test_below: float


def count(workers: Workers, partitions: Sequence[Partition], division: Division, scratch: Path) -> WordCounts:
    """The words of the training documents."""
    files = [scratch / f"words-{number}.arrow" for number in range(len(partitions))]
    with progress("counting words", sum(each.size for each in partitions), "bytes") as bar:
        task = delayed(_count, pure=False)
        tasks = [task(partition, division, path) for partition, path in zip(partitions, files, strict=True)]
        in_order(workers, tasks, lambda number, _: bar.advance(partitions[number].size))
    return WordCounts.of(files)


def _count(partition: Partition, division: Division, path: Path) -> None:
    trained = (each for each in partition.documents() if each.draw(division.seed) >= division.test_below)
    write_counts(count_words(line for document in trained for line in document.lines), path)


def write(
    workers: Workers,
    partitions: Sequence[Partition],
    settled: Settled,
    packing: Packing,
    division: Division,
    output: Path,
) -> Mapping[str, int]:
    """Writes train/part.N.parquet and test/part.N.parquet, N being the partition; returns counts."""
    for split in (TRAIN, TEST):
        (output / split).mkdir()
    total: Counter[str] = Counter()
    with progress("writing samples", sum(each.size for each in partitions), "bytes") as bar:
        task = delayed(_write, pure=False)
        tasks = [
            task(partition, settled.tokens, packing, division, output, number)
            for number, partition in enumerate(partitions)
        ]
        for counts in in_order(workers, tasks, lambda number, _: bar.advance(partitions[number].size)):
            total.update(counts)
    return total


@lru_cache(maxsize=1)
def _tokenizer(tokens: tuple[str, ...]) -> WordPiece:
    return WordPiece(tokens)


def _write(
    partition: Partition, tokens: tuple[str, ...], packing: Packing, division: Division, output: Path, number: int
) -> Mapping[str, int]:
    tokenizer = _tokenizer(tokens)
    splits: dict[str, list[tuple[list[int], list[int]]]] = {TRAIN: [], TEST: []}
    counts: Counter[str] = Counter()
    for document in partition.documents():
        split = TEST if document.draw(division.seed) < division.test_below else TRAIN
        random = Random("\n".join(map(str, (division.seed, *document.key))))
        for pair in packing.pairs(map(tokenizer.encode, document.lines), random):
            splits[split].append((pair.first, pair.second))
            counts["cut"] += pair.cut
            counts["tokens"] += len(pair.first) + len(pair.second)
    for split, pairs in splits.items():
        counts[split] += len(pairs)
        if pairs:
            made = sequences(pairs, packing.length, tokenizer.special)
            write_lists(output / split / f"part.{number}.parquet", [made._asdict()])
    return counts
