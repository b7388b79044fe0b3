"""The retries of requests to a service: exponential backoff, with a budget of tries or of time."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from components.errors import Unreachable
from components.storage.store import Unavailable

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Retry:
    """Exponential backoff with jitter.

    The wait after the n-th failure in a row is drawn from the upper half of ``first_wait * 2**(n-1)`` seconds, at most
    a minute, so that the clients of a recovering server do not all retry at once.

    Attributes:
        first_wait: longest wait after the first failure, in seconds.
        longest_wait: no wait is longer, even if the server asks for it; in seconds.
        seconds: time without an answer after which ``call`` gives up.
        remedy: advice for the user after the last failed try.
    """

    attempts: float
    first_wait: float = 0.5
    longest_wait: float = 600.0
    seconds: float = math.inf
    remedy: str = "check that the service answers and run again"
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def after_failure(self, failures: int, url: str, reason: Exception) -> None:
        """Waits after the ``failures``-th failure in a row.

        Raises:
            Unreachable: that was the last try.
        """
        if failures >= self.attempts:
            raise self._given_up(failures, url, reason) from reason
        wait = min(60.0, self.first_wait * 2 ** (failures - 1)) * random.uniform(0.5, 1.0)
        self.sleep(min(self.longest_wait, max(wait, getattr(reason, "wait", 0.0))))

    def call(self, url: str, question: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Calls ``question`` with the arguments given until one try succeeds.

        Raises:
            Unreachable: every try failed.
        """
        failures, until = 0, time.monotonic() + self.seconds
        while True:
            try:
                return question(*args, **named)
            except Unavailable as error:
                failures += 1
                if time.monotonic() > until:
                    raise self._given_up(failures, url, error) from error
                self.after_failure(failures, url, error)

    def _given_up(self, failures: int, url: str, reason: Exception) -> Unreachable:
        return Unreachable(f"{url}: gave up after {failures} tries ({reason}); {self.remedy}")
