"""A vocabulary fitted to the words of a corpus."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from components.text.fitting import WordCounts, count_words, fit_vocabulary, write_counts
from components.text.special import NAMES
from components.text.wordpiece import WordPiece

COUNTS = {"low": 5, "lower": 2, "newest": 6, "widest": 3}


def plain(counts: dict[str, int], merges: int) -> list[str]:
    """The merged tokens by counting all pairs anew for each of them."""
    words = {word: [word[0], *("##" + letter for letter in word[1:])] for word in counts}
    tokens = []
    for _ in range(merges):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, parts in words.items():
            for pair in pairwise(parts):
                pairs[pair] += counts[word]
        pairs = Counter({pair: count for pair, count in pairs.items() if count > 1})
        if not pairs:
            break
        first, second = min(pairs, key=lambda pair: (-pairs[pair], pair))
        token = first + second.removeprefix("##")
        tokens.append(token)
        for word, parts in words.items():
            merged: list[str] = []
            at = 0
            while at < len(parts):
                both = parts[at : at + 2] == [first, second]
                merged.append(token if both else parts[at])
                at += 2 if both else 1
            words[word] = merged
    return list(dict.fromkeys(tokens))


def letters(counts: dict[str, int]) -> list[str]:
    firsts, nexts = {word[0] for word in counts}, {letter for word in counts for letter in word[1:]}
    return [*sorted(firsts), *(f"##{letter}" for letter in sorted(nexts))]


def test_the_most_frequent_pairs_become_tokens() -> None:
    start = [*NAMES, *letters(COUNTS)]
    assert fit_vocabulary(COUNTS, len(start)) == start
    assert fit_vocabulary(COUNTS, len(start) + 3) == [*start, "##es", "##est", "##ow"]
    assert fit_vocabulary(COUNTS, 10_000) == [*start, *plain(COUNTS, 100)]


@pytest.mark.parametrize("seed", range(5))
def test_incremental_counts_are_those_of_counting_anew(seed: int) -> None:
    random = Random(seed)
    counts = {"".join(random.choices("abc", k=random.randint(1, 8))): random.randint(1, 9) for _ in range(60)}
    assert fit_vocabulary(counts, 10_000)[len(NAMES) + len(letters(counts)) :] == plain(counts, 10_000)


def test_the_order_of_the_words_does_not_matter() -> None:
    assert fit_vocabulary(dict(reversed(COUNTS.items())), 30) == fit_vocabulary(COUNTS, 30)


def test_frequent_words_are_one_token_and_all_others_are_spelled() -> None:
    pieces = WordPiece(fit_vocabulary(COUNTS, 10_000))
    assert [len(pieces.encode(word)) for word in ("newest", "low", "widest")] == [1, 1, 1]
    assert pieces.knows("lows") and not pieces.knows("lowx")


def test_words_are_counted_as_they_are_tokenized(tmp_path) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    for path, text in zip(files, ("Low, lower. LOW!", "low é"), strict=True):
        write_counts(count_words(text.split("\n")), path)
    counts = WordCounts.of(files)
    assert counts.counts == {"low": 3, ",": 1, "lower": 1, ".": 1, "!": 1, "e": 1}
    known = WordPiece([*NAMES, "low", ",", ".", "!"])
    assert counts.share_unknown(known) == 2 / 8


def test_of_too_many_words_the_rarest_are_forgotten(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("components.text.fitting._MOST_WORDS", 2)
    write_counts({"a": 3, "b": 2, "c": 1}, tmp_path / "a")
    write_counts({"d": 1, "a": 1}, tmp_path / "b")
    assert WordCounts.of([tmp_path / "a", tmp_path / "b"]).counts == {"a": 4, "b": 2}
