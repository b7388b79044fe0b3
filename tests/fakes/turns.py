"""Makes the clients of a fake send their requests in a given order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tests.waiting import LONGEST


class Turns:
    """One request at a time, in a given order of clients; afterwards in the order of arrival.

    Args:
        order: a client's name for each request.
    """

    def __init__(self, order: Iterable[str]) -> None:
        self._order = deque(order)
        self._changed = threading.Condition()
        self.taken: list[str] = []

    @contextmanager
    def turn(self, client: str) -> Iterator[None]:
        """Waits for the client's turn, and blocks all others until the request is done."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._order or self._order[0] == client, timeout=LONGEST):
                raise TimeoutError(f"{client} waits for its turn; {self._order[0]} has not come")
            self.taken.append(client)
            yield
            if self._order:
                self._order.popleft()
            self._changed.notify_all()

    def leave(self, client: str) -> None:
        """The client makes no more requests."""
        with self._changed:
            self._order = deque(name for name in self._order if name != client)
            self._changed.notify_all()
