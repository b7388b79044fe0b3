from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from components.records.prefetch import prefetched
from tests.waiting import LONGEST

# A reference cycle keeps the generator until Python's last collection.
_LEFT_OPEN = """
from components.records.prefetch import prefetched
class Holder:
    pass
holder = Holder()
holder.itself, holder.items = holder, prefetched(iter(int, 1), 2)
next(holder.items)
raise SystemExit(3)
"""


@pytest.mark.parametrize("size", [0, 1, 5])
def test_items_keep_their_order(size: int) -> None:
    assert list(prefetched(range(50), size)) == list(range(50))


def test_an_exception_arrives_after_the_items_before_it() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise KeyError("two")

    items = prefetched(failing(), 2)
    assert next(items) == 1
    with pytest.raises(KeyError, match="two"):
        next(items)


def test_closing_early_ends_the_thread() -> None:
    items = prefetched(iter(int, 1), 2)
    next(items)
    items.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name == "prefetch"]


def test_a_process_ends_though_an_iterator_was_left_open() -> None:
    assert subprocess.run([sys.executable, "-c", _LEFT_OPEN], timeout=LONGEST).returncode == 3
