from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from components.records.prefetch import prefetched


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
