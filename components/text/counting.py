"""Counts the normalised words of texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from components.text.normalization import RAW_WORD, texts_of
from components.text.wordpiece import WordPiece

# The words of a large corpus, most of them typing errors, would exceed the memory.
_MOST_WORDS = 8_000_000


def count_words(texts: Iterable[str]) -> Counter[str]:
    """The words of texts, and how often they occur."""
    raw: Counter[str] = Counter()
    for text in texts:
        raw.update(RAW_WORD.findall(text))
    words: Counter[str] = Counter()
    for each, count in raw.items():
        for word in texts_of(each):
            words[word] += count
    return words


def write_counts(counts: Mapping[str, int], path: Path) -> None:
    """Writes counts as an Arrow file."""
    table = pa.table({"word": pa.array(counts.keys(), pa.string()), "count": pa.array(counts.values(), pa.int64())})
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)


@dataclass(frozen=True)
class WordCounts:
    """The words of a corpus.

    Attributes:
        counts: word to its number of occurrences; of a large corpus without the rarest words.
    """

    counts: Mapping[str, int]

    @classmethod
    def of(cls, files: Sequence[Path]) -> WordCounts:
        """The sum of files of ``write_counts``, in this order.

        Where the words are too many, those that occurred once so far are forgotten, then those twice, and so on.
        """
        total: Counter[str] = Counter()
        for path in files:
            with pa.OSFile(str(path)) as file:
                table = pa.ipc.open_file(file).read_all()
            total.update(dict(zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True)))
            rare = 1
            while len(total) > _MOST_WORDS:
                total = Counter({word: count for word, count in total.items() if count > rare})
                rare += 1
        return cls(total)

    def share_unknown(self, tokenizer: WordPiece) -> float:
        """Share of the occurrences whose word a tokenizer does not know."""
        every = sum(self.counts.values())
        unknown = sum(count for word, count in self.counts.items() if not tokenizer.knows(word))
        return unknown / every if every else 0.0
