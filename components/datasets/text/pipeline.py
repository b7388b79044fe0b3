"""The passes over the partitions: count words, and write samples, pairs of segments of about one length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from dask import delayed

from components.datasets.text.documents import Partition
from components.feature_spec.spec import TEST, TRAIN
from components.progress import progress
from components.text.fitting import WordCounts, count_words, write_counts
from components.text.vocabulary import Settled
from components.text.wordpiece import WordPiece
from components.text.writing import sequences, write_lists
from components.workflows.workers import Workers, in_order

# Tokens of a sample beside those of its segments: [CLS] first [SEP] second [SEP].
_SPECIAL = 3
_SHORTEST = 5


class Pair(NamedTuple):
    """A sample.

    Attributes:
        first: tokens of the first segment.
        second: of the second one; empty if there is one.
        cut: tokens of the sentences that did not fit.
    """

    first: list[int]
    second: list[int]
    cut: int


@dataclass(frozen=True)
class Packing:
    """How sentences become samples.

    Attributes:
        one_segment_share: see ``components.datasets.text.Sampling``.
    """

    length: int
    one_segment_share: float
    short_share: float

    def pairs(self, sentences: Iterable[list[int]], random: Random) -> Iterator[Pair]:
        """The samples of a document.

        Sentences are collected until they have the target's number of tokens, or the document ends. The target is
        ``length``, or for ``short_share`` of the samples a uniform number from 5 to ``length``. The sentences are
        divided at about half of the target; ``one_segment_share`` of the samples stay whole. What then exceeds
        ``length`` is cut.

        Source: Clark et al., "ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators", ICLR 2020,
        as its released program packs texts.

        Args:
            random: draws targets and divisions; a document needs its own for samples that do not depend on others.
        """
        collected: list[list[int]] = []
        size, target = 0, self._target(random)
        for sentence in sentences:
            collected.append(sentence)
            size += len(sentence)
            if size >= target:
                yield self._pair(collected, target, random)
                collected, size, target = [], 0, self._target(random)
        if size:
            yield self._pair(collected, target, random)

    def _target(self, random: Random) -> int:
        return random.randint(_SHORTEST, self.length) if random.random() < self.short_share else self.length

    def _pair(self, sentences: list[list[int]], target: int, random: Random) -> Pair:
        stays_whole = random.random() < self.one_segment_share
        half = (target - _SPECIAL) // 2
        first: list[int] = []
        second: list[int] = []
        for sentence in sentences:
            fits = stays_whole or not first or len(first) + len(sentence) < half
            if fits or (not second and len(first) < half and random.random() < 0.5):
                first += sentence
            else:
                second += sentence
        size = len(first) + len(second)
        first = first[: self.length - 2]
        second = second[: max(0, self.length - len(first) - _SPECIAL)]
        return Pair(first, second, size - len(first) - len(second))


@dataclass(frozen=True)
class Division:
    """Which documents are tested on."""

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
