"""EM and F1 during training, exact for questions whose windows are spread over batches and ranks.

Each rank buffers places and valid spans of its windows on the host. At the end of the split, an all-to-all sends the
windows of a question to the rank of its number, which answers it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from components.tasks.definition import Exchange, Tensors
from components.tasks.question_answering.measure import match_answers, windows_and_spans
from components.text.answers import AnswerSettings, Spans, Windows
from components.text.outputs import IMPOSSIBLE, SPAN_ENDS, SPAN_SCORES, SPAN_STARTS
from components.text.questions import WINDOW, QuestionTables

_OUTPUTS = (SPAN_STARTS, SPAN_ENDS, SPAN_SCORES, IMPOSSIBLE)


class AnswerMetrics(tf.Module):
    """EM and F1 of a split; nothing while training, since only whole questions have answers."""

    def __init__(self, training: bool, settings: AnswerSettings) -> None:
        super().__init__()
        self._training, self._settings = training, settings
        self._tables: QuestionTables | None = None
        self._parts: list[tuple[list[np.ndarray], list[np.ndarray]]] = []

    def read_tables(self, tables: Mapping[str, Path]) -> None:
        """See ``components.tasks.definition.ReadingTables``."""
        if not self._training and tables:
            self._tables = QuestionTables(tables)

    def update(self, targets: Tensors, outputs: Tensors, kept: Tensors) -> None:
        if self._tables is not None and set(WINDOW) <= set(kept):
            tf.numpy_function(self._add, [*(kept[name] for name in WINDOW), *(outputs[name] for name in _OUTPUTS)], [])

    def _add(self, *arrays: np.ndarray) -> None:
        kept, outputs = dict(zip(WINDOW, arrays, strict=False)), dict(zip(_OUTPUTS, arrays[len(WINDOW) :], strict=True))
        windows, spans = windows_and_spans(kept, outputs, self._settings)
        # A copy: TensorFlow reuses the array's memory.
        placed = [windows.question, windows.first_token, windows.tokens, windows.begin, outputs[IMPOSSIBLE].copy()]
        self._parts.append((placed, [spans.question, spans.window, spans.begin, spans.end, spans.score]))

    def reset(self) -> None:
        self._parts.clear()

    def totals(self, ranks: Exchange) -> list[tf.Tensor]:
        if self._training:
            return []
        if self._tables is None:
            return [tf.zeros([3], tf.float64)]
        windows, spans = (
            [
                np.concatenate([_NOTHING[kind][column], *(part[kind][column] for part in self._parts)])
                for column in range(5)
            ]
            for kind in range(2)
        )
        windows, spans = (ranks.exchange(columns[0], columns) for columns in (windows, spans))
        matched = match_answers(Windows(*windows[:4]), windows[4], Spans(*spans), self._tables, self._settings)
        return [tf.constant([*matched.matches.sum(0), len(matched.texts)], tf.float64)]

    def load(self, totals: Sequence[np.ndarray]) -> None:
        """Nothing is measured while training."""

    def result(self, totals: Sequence[np.ndarray]) -> dict[str, float]:
        """``f1`` and ``exact_match``; NaN without a question or its side tables."""
        if self._training:
            return {}
        exact, f1, questions = totals[0].tolist()
        return {"f1": f1 / questions, "exact_match": exact / questions} if questions else _UNDEFINED


_UNDEFINED = {"f1": float("nan"), "exact_match": float("nan")}
# Of a rank without windows.
_NOTHING = ([*[np.zeros(0, np.int64)] * 4, np.zeros(0, np.float32)],) * 2
