from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from components.download.fetch import copy_file


def test_a_copy_has_the_bytes_and_its_own_inode(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"hello" * 1000)
    copy_file(tmp_path / "source", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"hello" * 1000
    assert not (tmp_path / "copy").samefile(tmp_path / "source")


def test_blocks_are_shared_where_the_file_system_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cloned = []

    def clone(target: int, request: int, source: int) -> int:
        cloned.append(request)
        return 0

    monkeypatch.setattr(fcntl, "ioctl", clone)
    (tmp_path / "source").write_bytes(b"hello")
    copy_file(tmp_path / "source", tmp_path / "copy")
    assert cloned == [0x40049409]
    assert (tmp_path / "copy").read_bytes() == b""  # Nothing was written beside the clone.
