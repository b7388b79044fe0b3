"""When to try again, and how long to wait before."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from components.errors import KfrecError
from components.storage.store import Unavailable

T = TypeVar("T")


@dataclass(frozen=True)
class Retry:
    """Exponential backoff with jitter.

    The n-th failure in a row is followed by a wait drawn from the upper half of ``first_wait * 2**(n-1)`` seconds, so
    that many clients of a server that comes back do not all arrive at once.

    Attributes:
        attempts: tries in a row before giving up.
        first_wait: longest wait after the first failure, in seconds.
        longest_wait: no wait is longer, unless the server asks for it; in seconds.
        remedy: what the user is told to do when the last try failed.
        sleep: how to wait.
    """

    attempts: int
    first_wait: float = 0.5
    longest_wait: float = 60.0
    remedy: str = "check that the service answers and run again"
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def after_failure(self, failures: int, url: str, reason: Exception) -> None:
        """Waits after the ``failures``-th failure in a row.

        Raises:
            KfrecError: that was the last try.
        """
        if failures >= self.attempts:
            raise KfrecError(f"{url}: gave up after {failures} tries ({reason}); {self.remedy}") from reason
        wait = min(self.longest_wait, self.first_wait * 2 ** (failures - 1)) * random.uniform(0.5, 1.0)
        self.sleep(max(wait, getattr(reason, "wait", 0.0)))

    def call(self, url: str, question: Callable[[], T]) -> T:
        """Asks until there is an answer.

        Raises:
            KfrecError: every try failed.
        """
        failures = 0
        while True:
            try:
                return question()
            except Unavailable as error:
                failures += 1
                self.after_failure(failures, url, error)
