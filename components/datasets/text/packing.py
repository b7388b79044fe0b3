"""Sentences to pairs of segments of about one length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

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
        length: tokens of a sample.
        one_segment_share: see ``components.datasets.text.parameters.Sampling``.
        short_share: likewise.
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
            sentences: tokens of each.
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
