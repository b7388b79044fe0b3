"""The passes over partitions of articles: count words, write windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from dask import delayed

from components.datasets.squad.reading import Article, Paragraph, Question
from components.datasets.squad.windows import Shape, Windows, tokens_within
from components.feature_spec.side_tables import SIDE_TABLES
from components.feature_spec.spec import TRAIN
from components.progress import progress
from components.text.fitting import WordCounts, count_words, write_counts
from components.text.questions import CONTEXTS, CONTEXTS_SCHEMA, QUESTIONS, QUESTIONS_SCHEMA
from components.text.wordpiece import WordPiece
from components.text.writing import write_lists
from components.workflows.workers import Workers, in_order

# Windows in memory.
_AT_A_TIME = 4096


@dataclass(frozen=True)
class Partition:
    """Paragraphs of one split.

    Attributes:
        first_question: number of the first question; those of validation and test are rows of the side table.
    """

    split: str
    paragraphs: tuple[Paragraph, ...]
    first_question: int

    @property
    def questions(self) -> int:
        """Number of its questions."""
        return sum(len(paragraph.questions) for paragraph in self.paragraphs)

    def numbered(self) -> Iterator[tuple[Paragraph, list[tuple[int, Question]]]]:
        """The paragraphs, with the numbers of their questions."""
        number = self.first_question
        for paragraph in self.paragraphs:
            yield paragraph, list(enumerate(paragraph.questions, number))
            number += len(paragraph.questions)


def partitions_of(splits: Mapping[str, Sequence[Article]], size: int) -> list[Partition]:
    """Divides the questions of splits.

    Args:
        splits: the training split last, so that the numbers of the others begin with 0.
        size: questions of a partition; its last paragraph may exceed them.
    """
    partitions, number = [], 0
    for split, articles in splits.items():
        held: list[Paragraph] = []
        count = 0
        for paragraph in (paragraph for article in articles for paragraph in article.paragraphs):
            held.append(paragraph)
            count += len(paragraph.questions)
            if count >= size:
                partitions.append(Partition(split, tuple(held), number))
                held, number, count = [], number + count, 0
        if held:
            partitions.append(Partition(split, tuple(held), number))
            number += count
    return partitions


def count(workers: Workers, partitions: Sequence[Partition], scratch: Path) -> WordCounts:
    """The words of training questions and their texts."""
    trained = [partition for partition in partitions if partition.split == TRAIN]
    files = [scratch / f"words-{number}.arrow" for number in range(len(trained))]
    with progress("counting words", sum(each.questions for each in trained), "questions") as bar:
        task = delayed(_count, pure=False, traverse=False)
        tasks = [task(partition, path) for partition, path in zip(trained, files, strict=True)]
        in_order(workers, tasks, lambda number, _: bar.advance(trained[number].questions))
    return WordCounts.of(files)


def _count(partition: Partition, path: Path) -> None:
    texts = (text for each in partition.paragraphs for text in (each.context, *(q.text for q in each.questions)))
    write_counts(count_words(texts), path)


def write(
    workers: Workers,
    partitions: Sequence[Partition],
    tokens: tuple[str, ...],
    shape: Shape,
    output: Path,
    scratch: Path,
) -> Mapping[str, int]:
    """Writes <split>/part.N.parquet, N being the partition, and the side tables; returns counts."""
    for split in {partition.split for partition in partitions}:
        (output / split).mkdir()
    total: Counter[str] = Counter()
    with progress("writing samples", sum(each.questions for each in partitions), "questions") as bar:
        task = delayed(_write, pure=False, traverse=False)
        tasks = [
            task(
                partition, tokens, shape, output / partition.split / f"part.{number}.parquet", _tables(scratch, number)
            )
            for number, partition in enumerate(partitions)
        ]
        for counts in in_order(workers, tasks, lambda number, _: bar.advance(partitions[number].questions)):
            total.update(counts)
    evaluated = [_tables(scratch, number) for number, each in enumerate(partitions) if each.split != TRAIN]
    (output / SIDE_TABLES).mkdir()
    for name, schema in ((QUESTIONS, QUESTIONS_SCHEMA), (CONTEXTS, CONTEXTS_SCHEMA)):
        _join(evaluated, name, schema, output / SIDE_TABLES / f"{name}.parquet")
    return total


def _tables(scratch: Path, number: int) -> Path:
    return scratch / f"tables-{number}"


@lru_cache(maxsize=1)
def _tokenizer(tokens: tuple[str, ...]) -> WordPiece:
    return WordPiece(tokens)


def _write(partition: Partition, tokens: tuple[str, ...], shape: Shape, path: Path, tables: Path) -> Mapping[str, int]:
    written = _Written(_tokenizer(tokens), shape)
    write_lists(path, written.windows(partition))
    if partition.split != TRAIN:
        tables.mkdir()
        for name, rows, schema in (
            (QUESTIONS, written.questions, QUESTIONS_SCHEMA),
            (CONTEXTS, written.contexts, CONTEXTS_SCHEMA),
        ):
            columns = zip(*rows, strict=True)
            arrays = [pa.array(values, kind.type) for values, kind in zip(columns, schema, strict=True)]
            pq.write_table(pa.table(arrays, schema=schema), tables / f"{name}.parquet")
    return written.counts


class _Written:
    """A partition on its way to files."""

    def __init__(self, tokenizer: WordPiece, shape: Shape) -> None:
        self._tokenizer, self._shape = tokenizer, shape
        self.counts: Counter[str] = Counter()
        self.questions: list[tuple[str, str, int, tuple[str, ...]]] = []
        self.contexts: list[tuple[str, np.ndarray, np.ndarray]] = []

    def windows(self, partition: Partition) -> Iterator[dict[str, np.ndarray]]:
        """The windows, a few thousand at a time: a long context has many."""
        windows = Windows(self._shape, self._tokenizer.special)
        for paragraph, numbered in partition.numbered():
            located = self._tokenizer.locate(paragraph.context)
            begins, ends = np.array(located.begins, np.int32), np.array(located.ends, np.int32)
            for number, question in numbered:
                answer = tokens_within(begins, ends, question.begin, question.end) if question.answers else None
                if answer is not None:
                    widened = begins[answer[0]] < question.begin or ends[answer[1]] > question.end
                    self.counts["widened_answers"] += bool(widened)
                is_held = windows.add(number, self._tokenizer.encode(question.text), located.ids, answer)
                self.counts["too_long_answers"] += answer is not None and not is_held
                self.questions.append((question.id, question.text, len(self.contexts), question.answers))
                if len(windows) >= _AT_A_TIME:
                    self.counts[partition.split] += len(windows)
                    yield windows.taken()
            self.contexts.append((paragraph.context, begins, ends))
        self.counts["questions"] = len(self.questions)
        self.counts[partition.split] += len(windows)
        yield windows.taken()


def _join(folders: Sequence[Path], name: str, schema: pa.Schema, path: Path) -> None:
    """Joins the tables of partitions, in which contexts are numbered from 0 each."""
    contexts = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for folder in folders:
            table = pq.read_table(folder / f"{name}.parquet")
            if name == QUESTIONS:
                numbers = table["context"].to_numpy() + np.int32(contexts)
                table = table.set_column(
                    table.schema.get_field_index("context"), schema.field("context"), pa.array(numbers)
                )
                contexts += pq.read_metadata(folder / f"{CONTEXTS}.parquet").num_rows
            writer.write_table(table)
