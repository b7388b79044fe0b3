"""A question and its context as windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from components.text.questions import CONTEXT_BEGIN, CONTEXT_TOKENS, END, FIRST_TOKEN, IS_IMPOSSIBLE, QUESTION, START
from components.text.special import SpecialTokens
from components.text.vocabulary import INPUT_IDS
from components.text.writing import SEGMENT_IDS, sequences

P_MASK = "p_mask"
# Tokens of a window beside those of question and context: [CLS] question [SEP] context [SEP].
_SPECIAL = 3


@dataclass(frozen=True)
class Shape:
    """Sizes of windows.

    Attributes:
        stride: tokens from the beginning of a window to that of the next one.
        query: most tokens of a question.
    """

    length: int
    stride: int
    query: int

    def spans(self, tokens: int, query: int) -> Iterator[tuple[int, int]]:
        """First token and number of tokens of each window of a context; at least one window."""
        room, first = self.length - query - _SPECIAL, 0
        while True:
            size = min(room, tokens - first)
            yield first, size
            if first + size >= tokens:
                return
            first += min(size, self.stride)


@dataclass
class Windows:
    """Collects windows."""

    shape: Shape
    special: SpecialTokens
    _pairs: list[tuple[list[int], list[int]]] = field(default_factory=list)
    _rows: list[tuple[int, int, int, int, int, int, int]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, number: int, query: list[int], context: list[int], answer: tuple[int, int] | None) -> bool:
        """Adds the windows of a question; returns whether one of them holds the answer.

        Args:
            query: tokens of the question; those beyond ``Shape.query`` are cut off.
            answer: first and last token of the answer in the context; None without one. A window that does not hold it
                has no answer.
        """
        query = query[: self.shape.query]
        begin, is_held = len(query) + 2, False
        for first, size in self.shape.spans(len(context), len(query)):
            start = end = 0  # [CLS]
            if answer is not None and first <= answer[0] and answer[1] < first + size:
                start, end = (token - first + begin for token in answer)
                is_held = True
            self._pairs.append((query, context[first : first + size]))
            self._rows.append((number, first, size, begin, start, end, not start))
        return is_held

    def taken(self) -> dict[str, np.ndarray]:
        """The collected windows, as ``columns``; forgets them."""
        columns = self.columns()
        self._pairs.clear()
        self._rows.clear()
        return columns

    def columns(self) -> dict[str, np.ndarray]:
        """The windows: features, targets and places, by name."""
        length = self.shape.length
        made = sequences(self._pairs, length, self.special)
        rows = np.array(self._rows, np.int32).reshape(len(self._rows), 7)
        number, first, size, begin, start, end, impossible = rows.T
        position = np.arange(length)
        # The question, [SEP] and padding are no answers; [CLS] is that of a question without one.
        masked = (position != 0) & ((position < begin[:, None]) | (position >= (begin + size)[:, None]))
        return {
            INPUT_IDS: made.input_ids,
            SEGMENT_IDS: made.segment_ids,
            P_MASK: masked.astype(np.int8),
            START: start,
            END: end,
            IS_IMPOSSIBLE: impossible.astype(np.int8),
            QUESTION: number,
            FIRST_TOKEN: first,
            CONTEXT_TOKENS: size,
            CONTEXT_BEGIN: begin,
        }


def tokens_within(begins: np.ndarray, ends: np.ndarray, begin: int, end: int) -> tuple[int, int] | None:
    """The first and the last token that have characters of a part of a text; None if there is none."""
    first, last = int(np.searchsorted(ends, begin, "right")), int(np.searchsorted(begins, end, "left")) - 1
    return (first, last) if first <= last else None
