"""Counts the words of a corpus, and fits a WordPiece vocabulary to them: the most frequent pairs of tokens merge."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from components.text.special import NAMES
from components.text.wordpiece import CONTINUES, LONGEST_WORD, RAW_WORD, WordPiece, words_of

# The words of a large corpus, most of them typing errors, would exceed the memory.
_MOST_WORDS = 8_000_000
# Rarer words hardly change a vocabulary, and each takes time.
_WORDS = 200_000
# Characters of a large corpus are those of many scripts; rarer ones are unknown.
_ALPHABET = 1000
_LEAST_PAIRS = 2


def count_words(texts: Iterable[str]) -> Counter[str]:
    """The words of texts, and how often they occur."""
    raw: Counter[str] = Counter()
    for text in texts:
        raw.update(RAW_WORD.findall(text))
    words: Counter[str] = Counter()
    for each, count in raw.items():
        for word in words_of(each):
            words[word] += count
    return words


def write_counts(counts: Mapping[str, int], path: Path) -> None:
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


def fit_vocabulary(counts: Mapping[str, int], size: int) -> list[str]:
    """The tokens of a vocabulary: the special ones, the characters, then merged tokens, the most frequent first.

    Tokens begin as characters. The pair of neighbouring tokens that is most frequent over all words becomes a token,
    and so on; of equally frequent pairs the first in the order of the alphabet. The result does not depend on the order
    of the words.

    Source: Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units", ACL 2016, with the tokens of
    BERT.

    Args:
        size: most tokens, with the special ones. A small corpus makes fewer, and characters alone may make more.
    """
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    frequent = [(word, count) for word, count in ordered if len(word) <= LONGEST_WORD][:_WORDS]
    alphabet = _alphabet(frequent)
    tokens = [*NAMES, *alphabet]
    known = set(alphabet)
    words: list[list[str]] = []
    weights: list[int] = []
    for word, count in frequent:
        letters = [word[0], *(CONTINUES + letter for letter in word[1:])]
        if known.issuperset(letters):
            words.append(letters)
            weights.append(count)
    tokens += _merged(words, weights, known, size - len(tokens))
    return tokens


def _alphabet(words: list[tuple[str, int]]) -> list[str]:
    """The tokens of single characters, in order: as the first of a word, and as one that continues it."""
    firsts: Counter[str] = Counter()
    nexts: Counter[str] = Counter()
    for word, count in words:
        firsts[word[0]] += count
        for letter in word[1:]:
            nexts[letter] += count
    total = firsts + nexts
    kept = set(sorted(total, key=lambda letter: (-total[letter], letter))[:_ALPHABET])
    return [*sorted(kept & firsts.keys()), *(CONTINUES + letter for letter in sorted(kept & nexts.keys()))]


def _merged(words: list[list[str]], weights: list[int], known: set[str], room: int) -> list[str]:
    """New tokens, at most ``room``; ``words`` changes."""
    pairs: Counter[tuple[str, str]] = Counter()
    where: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for number, (word, weight) in enumerate(zip(words, weights, strict=True)):
        for pair in pairwise(word):
            pairs[pair] += weight
            where[pair].add(number)
    # Counts in the heap may be outdated; a changed pair is pushed again.
    heap = [(-count, pair) for pair, count in pairs.items()]
    heapq.heapify(heap)
    tokens: list[str] = []
    while heap and len(tokens) < room:
        negative, pair = heapq.heappop(heap)
        if pairs[pair] != -negative:
            continue
        if -negative < _LEAST_PAIRS:
            break
        token = pair[0] + pair[1].removeprefix(CONTINUES)
        if token not in known:  # two pairs may make one token
            known.add(token)
            tokens.append(token)
        changed = set()
        for number in where.pop(pair):
            changed |= _replace(words, number, weights[number], pair, token, pairs, where)
        changed.discard(pair)
        del pairs[pair]
        for other in changed:
            if pairs[other] > 0:
                heapq.heappush(heap, (-pairs[other], other))
    return tokens


def _replace(
    words: list[list[str]],
    number: int,
    weight: int,
    pair: tuple[str, str],
    token: str,
    pairs: Counter[tuple[str, str]],
    where: defaultdict[tuple[str, str], set[int]],
) -> set[tuple[str, str]]:
    """Merges a pair in a word; returns the pairs whose counts changed."""
    old, new, at = words[number], [], 0
    while at < len(old):
        if at + 1 < len(old) and (old[at], old[at + 1]) == pair:
            new.append(token)
            at += 2
        else:
            new.append(old[at])
            at += 1
    words[number] = new
    before, after = (Counter(pairwise(word)) for word in (old, new))
    for other in before.keys() | after.keys():
        change = after[other] - before[other]
        if change:
            pairs[other] += change * weight
        if not after[other] and other != pair:
            where[other].discard(number)
        elif after[other]:
            where[other].add(number)
    return {other for other in before.keys() | after.keys() if before[other] != after[other]}
