import os
import threading

import numpy as np
import pytest

from components.models.kernels import host


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
            together.wait(timeout=60)  # neither thread takes both of the first parts

    together = threading.Barrier(2)
    host.in_parts(work, 256, room=5)
    assert [len(own) for own in rooms.values()] == [1, 1]
    assert len(set.union(*rooms.values())) == 2


def test_kernels_are_allowed_only_within():
    assert not host.are_allowed()
    with host.host_kernels():
        assert host.are_allowed()
        with host.host_kernels(False):
            assert not host.are_allowed()
        assert host.are_allowed()
    assert not host.are_allowed()


def test_parts_that_are_begun_are_taken_in_idle_time_and_all_are_done_at_the_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host, "threads", lambda: 2)
    seen: dict[int, str] = {}
    one_done = threading.Event()

    def work(part: int, first: int, last: int) -> None:
        assert part not in seen
        seen[part] = threading.current_thread().name
        one_done.set()

    parts = host.Parts(work, 256)
    assert not seen
    parts.begin()
    assert one_done.wait(timeout=60)
    parts.finish()
    assert sorted(seen) == list(range(host.parts(256)))
    assert seen[0].startswith("idle")


def test_what_fails_in_idle_time_fails_at_the_end():
    def work(part: int, first: int, last: int) -> None:
        raise ValueError("no")

    parts = host.Parts(work, 1)
    parts.begin()
    with pytest.raises(ValueError, match="no"):
        parts.finish()


def test_idle_time_is_time_in_which_the_system_has_nothing_else_to_do():
    assert host.in_idle_time(lambda: os.sched_getscheduler(threading.get_native_id())).result() == os.SCHED_IDLE
    assert os.sched_getscheduler(threading.get_native_id()) == os.SCHED_OTHER
