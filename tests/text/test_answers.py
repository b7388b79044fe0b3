"""The best spans of questions against a search over all of them."""

from __future__ import annotations

import numpy as np
import pytest

from components.text.answers import NOTHING, AnswerSettings, Spans, Windows, answers, best_spans, valid_spans


def windows(*rows: tuple[int, int, int, int]) -> Windows:
    return Windows(*np.array(rows, np.int64).reshape(-1, 4).T)


def brute(places: Windows, spans: Spans) -> dict[int, list[int]]:
    """Question to its spans, best first, by looking at every window for every span."""
    found: dict[int, list[int]] = {}
    for index in range(len(spans.score)):
        question, begin = spans.question[index], spans.begin[index]
        best: tuple[float, int] | None = None
        order = sorted(range(len(places.question)), key=lambda row: places.first_token[row])
        for row in order:
            first, size = places.first_token[row], places.tokens[row]
            if places.question[row] == question and first <= begin < first + size:
                score = min(begin - first, first + size - 1 - begin) + 0.01 * size
                if best is None or score > best[0]:
                    best = (score, first)
        if best is not None and best[1] == spans.window[index]:
            found.setdefault(int(question), []).append(index)
    return {q: sorted(each, key=lambda index: (-spans.score[index], index)) for q, each in found.items()}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("most", [1, 3])
def test_the_best_spans_are_those_of_a_plain_search(seed: int, most: int) -> None:
    random = np.random.default_rng(seed)
    rows, stride, room = [], int(random.integers(1, 8)), 8
    for question in random.permutation(6):
        tokens, first = int(random.integers(1, 40)), 0
        while True:
            size = min(room, tokens - first)
            rows.append((question, first, size, 5))
            if first + size >= tokens:
                break
            first += min(size, stride)
    random.shuffle(rows)
    places = windows(*rows)
    starts, ends = random.integers(0, 16, (2, len(rows), 12)).astype(np.int32)
    scores = -random.integers(0, 6, (len(rows), 12)).astype(np.float32)
    spans = valid_spans(places, starts, ends, scores, longest=4)
    best, expected = best_spans(places, spans, most), brute(places, spans)
    assert best.tolist() == [index for question in sorted(expected) for index in expected[question][:most]]


def test_a_question_may_have_very_many_windows() -> None:
    """Time and memory are in proportion to the spans, or this takes hours."""
    count = 1 << 17
    first = np.arange(count) * 4
    places = Windows(np.zeros(count, np.int64), first, np.full(count, 10), np.full(count, 2))
    starts = np.tile(np.arange(2, 12), (count, 1))
    spans = valid_spans(places, starts, starts, np.zeros(starts.shape, np.float32), longest=4)
    best = best_spans(places, spans, most=count * 10)
    assert np.unique(spans.begin[best]).tolist() == list(range(int(first[-1]) + 10)) and len(best) == first[-1] + 10


def test_a_span_is_valid_in_the_context_forwards_and_not_too_long() -> None:
    places = windows((3, 10, 4, 2))
    spans = [(0, 0), (1, 2), (2, 2), (2, 4), (2, 5), (3, 2), (5, 5), (5, 6), (4, 4)]
    starts, ends = np.array([spans], np.int32).transpose(2, 0, 1)
    scores = np.zeros((1, len(spans)), np.float32)
    scores[0, -1] = NOTHING
    found = valid_spans(places, starts, ends, scores, longest=3)
    assert list(zip(found.begin.tolist(), found.end.tolist(), strict=True)) == [(10, 10), (10, 12), (13, 13)]
    assert set(found.question) == {3} and set(found.window) == {10}


def test_a_question_has_the_best_span_and_the_lowest_odds_of_its_windows() -> None:
    places = windows((1, 0, 4, 2), (0, 0, 4, 2), (1, 3, 4, 2))
    starts, scores = np.array([[3], [4], [4]], np.int32), np.array([[-2.0], [-1.0], [-0.5]], np.float32)
    impossible = np.array([4.0, 3.0, -7.0], np.float32)
    found = answers(places, impossible, valid_spans(places, starts, starts, scores, 30))
    assert found.question.tolist() == [0, 1] and found.impossible.tolist() == [3.0, -7.0]
    assert found.begin.tolist() == found.end.tolist() == [2, 5] and found.score.tolist() == [-1.0, -0.5]
    assert AnswerSettings().is_empty(found).tolist() == [True, False]
    assert AnswerSettings(null_threshold=3.5).is_empty(found).tolist() == [False, False]


def test_a_question_without_a_valid_span_is_unanswered() -> None:
    places = windows((5, 0, 4, 2))
    nothing = np.zeros((1, 3), np.int32)
    spans = valid_spans(places, nothing, nothing, np.zeros((1, 3), np.float32), 30)
    found = answers(places, np.array([-99.0], np.float32), spans)
    assert found.begin.tolist() == [-1] and found.score[0] == np.float32(NOTHING)
    assert AnswerSettings().is_empty(found).tolist() == [True]


def test_no_windows_have_no_answers() -> None:
    empty = np.zeros((0, 3), np.int32)
    spans = valid_spans(windows(), empty, empty, empty.astype(np.float32), 30)
    assert len(answers(windows(), np.zeros(0, np.float32), spans).question) == 0


def test_settings_come_from_the_parameters_of_a_training() -> None:
    assert AnswerSettings.of({"null_threshold": 1.5, "epochs": 3}) == AnswerSettings(null_threshold=1.5)
    assert AnswerSettings.of({}) == AnswerSettings()
