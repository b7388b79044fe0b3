"""How long tests wait: for what takes a moment on an idle machine, and minutes on a busy one."""

from __future__ import annotations

import faulthandler
import time
from collections.abc import Callable

LONGEST = 600.0
"""Seconds after which something that a test waits for will not come any more."""
UNTIL_ENDED = 3600
"""Seconds that a process sleeps which the test is to end."""


def wait_for(condition: Callable[[], object], pause: float = 0.02) -> None:
    """Waits until the condition holds; fails after LONGEST, and shows what every thread was doing.

    Args:
        condition: tried until it is true.
        pause: between two tries, in seconds.
    """
    until = time.monotonic() + LONGEST
    while not condition():
        if time.monotonic() > until:
            faulthandler.dump_traceback()
            raise AssertionError(f"waited {LONGEST:.0f} s in vain")
        time.sleep(pause)
