"""Scores requests that wait together: one thread answers all that came while it was busy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Protocol

from components.scoring.served import Answer, Request

# Rows of a batch, unless one request has more: larger batches gain nothing and keep others waiting.
_LARGEST = 4096


class Answering(Protocol):
    """Answers requests of one group together, as ``components.scoring.served.Served`` does."""

    def answer(self, requests: Sequence[Request]) -> list[Answer]:
        """The answers in the order of the requests."""


@dataclass(frozen=True)
class Answered:
    """An answer, and the body that is sent."""

    body: bytes
    request: Request
    answer: Answer


@dataclass(frozen=True)
class _Waiting:
    read: Callable[[], Request]
    write: Callable[[Answer], bytes]
    future: Future[Answered]


class Batches:
    """A queue of requests with the thread that answers them.

    Args:
        scored: called once for each batch that is scored.
    """

    def __init__(self, model: Answering, scored: Callable[[], None]) -> None:
        self._model, self._scored = model, scored
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        Thread(target=self._run, name="batches", daemon=True).start()

    def submit(self, read: Callable[[], Request], write: Callable[[Answer], bytes]) -> Future[Answered]:
        """Adds a request.

        Args:
            read: returns the checked request; called on the thread, as is ``write``.
            write: turns its answer into what is sent.

        Returns:
            The answer, or the error of this request alone.
        """
        future: Future[Answered] = Future()
        self._queue.put(_Waiting(read, write, future))
        return future

    def close(self) -> None:
        """Ends the thread once it has answered what was added before."""
        self._queue.put(None)

    def _run(self) -> None:
        is_open = True
        while is_open:
            groups: dict[Hashable, list[tuple[Request, _Waiting]]] = defaultdict(list)
            rows, waiting = 0, self._queue.get()
            while waiting is not None:
                try:
                    request = waiting.read()
                    groups[request.group].append((request, waiting))
                    rows += request.rows
                except Exception as error:
                    waiting.future.set_exception(error)
                if rows >= _LARGEST:
                    break
                try:
                    waiting = self._queue.get_nowait()
                except Empty:
                    break
            is_open = waiting is not None
            for group in groups.values():
                self._answer(group)

    def _answer(self, group: Sequence[tuple[Request, _Waiting]]) -> None:
        try:
            answers = self._model.answer([request for request, _ in group])
            self._scored()
            sent = [
                Answered(waiting.write(answer), request, answer)
                for (request, waiting), answer in zip(group, answers, strict=True)
            ]
        except Exception as error:
            if len(group) == 1:
                group[0][1].future.set_exception(error)
                return
            for each in group:  # the error is of one of them
                self._answer([each])
            return
        for (_, waiting), answered in zip(group, sent, strict=True):
            waiting.future.set_result(answered)
