"""Requests that wait are scored together, and fail alone."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from threading import Event

import pyarrow as pa
import pytest

from components.errors import KfrecError
from components.scoring.served import Answer, Request
from components.serving.batches import Answered, Batches
from tests.waiting import LONGEST, wait_for


class Doubling:
    """Answers a number with its double, and refuses 13; holds the first batch until ``go`` is set."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go = Event()

    def answer(self, requests: Sequence[Request]) -> list[Answer]:
        numbers = [request.columns["number"] for request in requests]
        self.batches.append(numbers)
        assert self.go.wait(LONGEST)
        if 13 in numbers:
            raise KfrecError("13 is refused")
        return [Answer(pa.table({"double": [2 * number]}), 0) for number in numbers]


@pytest.fixture
def model() -> Doubling:
    return Doubling()


def submit(batches: Batches, number: int, group: str = "") -> Future[Answered]:
    def read() -> Request:
        if number < 0:
            raise KfrecError(f"{number} cannot be read")
        return Request({"number": number}, 1, group=group)

    return batches.submit(read, lambda answer: str(answer.table["double"][0]).encode())


def answered(model: Doubling, numbers: Sequence[int], groups: Sequence[str] = ()) -> list[object]:
    """The answers to requests that wait while another one is scored, or their errors."""
    batches = Batches(model, lambda: None)
    first = submit(batches, 0)
    wait_for(lambda: model.batches)
    futures = [submit(batches, *each) for each in zip(numbers, groups or [""] * len(numbers), strict=True)]
    model.go.set()
    assert first.result(LONGEST).body == b"0"
    return [future.exception(LONGEST) or future.result().body for future in futures]


def test_requests_that_wait_are_scored_together(model: Doubling) -> None:
    assert answered(model, [1, 2, 3]) == [b"2", b"4", b"6"]
    assert model.batches == [[0], [1, 2, 3]]


def test_requests_of_several_groups_are_scored_apart(model: Doubling) -> None:
    assert answered(model, [1, 2, 3], ["a", "b", "a"]) == [b"2", b"4", b"6"]
    assert model.batches == [[0], [1, 3], [2]]


def test_an_error_is_of_its_request_alone(model: Doubling) -> None:
    one, refused, unread, three = answered(model, [1, 13, -1, 3])
    assert (one, three) == (b"2", b"6")
    assert str(refused) == "13 is refused" and str(unread) == "-1 cannot be read"
