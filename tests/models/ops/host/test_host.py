import threading

import numpy as np
import pytest

from components.models.ops.host import host
from tests.waiting import LONGEST


def test_parts_cover_everything_once():
    for total in (0, 1, 2, 17):
        seen: list[int] = []
        parts: list[int] = []

        def work(part: int, first: int, last: int, seen: list[int] = seen, parts: list[int] = parts) -> None:
            seen.extend(range(first, last))
            parts.append(part)

        host.in_parts(work, total)
        assert sorted(seen) == list(range(total))
        assert len(parts) <= host.parts(total)
        assert set(parts) == set(range(len(parts)))


def test_parts_get_smaller_so_that_nobody_waits_long_for_the_last(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host, "threads", lambda: 2)
    sizes: dict[int, int] = {}
    host.in_parts(lambda part, first, last: sizes.update({part: last - first}), 256)
    in_order = [sizes[part] for part in range(host.parts(256))]
    assert in_order == sorted(in_order, reverse=True)
    assert in_order[0] == 64
    assert in_order[-1] == 4
    assert len(in_order) < 16


def test_the_environment_sets_the_threads_as_it_sets_tensorflows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "5")
    assert host.threads.__wrapped__() == 5


def test_one_thread_takes_everything_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host, "threads", lambda: 1)
    assert host.parts(256) == 1


def test_each_thread_has_room_of_its_own_for_all_its_parts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host, "threads", lambda: 2)
    rooms: dict[int, set[int]] = {}

    def work(part: int, first: int, last: int, room: np.ndarray) -> None:
        assert (room.shape, room.dtype) == ((5,), np.float32)
        rooms.setdefault(threading.get_ident(), set()).add(room.ctypes.data)
        if part < 2:
            together.wait(timeout=LONGEST)  # neither thread takes both of the first parts

    together = threading.Barrier(2)
    host.in_parts(work, 256, room=5)
    assert [len(own) for own in rooms.values()] == [1, 1]
    assert len(set.union(*rooms.values())) == 2


@pytest.mark.parametrize("failing", [0, 5])
def test_an_error_of_any_thread_is_raised(failing: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host, "threads", lambda: 2)

    def work(part: int, first: int, last: int) -> None:
        if part == failing:
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        host.in_parts(work, 256)
