"""The files of compiled kernels, where several processes write them at once."""

from pathlib import Path

import pytest

from components.compiled import _MachineCode


def _files(folder: Path, version: int) -> _MachineCode:
    return _MachineCode(str(folder), "kernel", version)


def test_what_one_process_saves_another_loads(tmp_path: Path):
    _files(tmp_path, 1).save("floats", b"code")
    assert _files(tmp_path, 1).load("floats") == b"code"
    assert _files(tmp_path, 1).load("integers") is None


def test_processes_that_save_different_signatures_at_once_do_not_exchange_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    one, other = _files(tmp_path, 1), _files(tmp_path, 1)
    before = one._load_index()
    other.save("integers", b"of integers")
    with monkeypatch.context() as late:
        late.setattr(one, "_load_index", lambda: before)  # it has looked before the other one wrote
        one.save("floats", b"of floats")
    assert one.load("floats") == b"of floats"
    assert one.load("integers") in (None, b"of integers")


def test_an_upgraded_process_never_loads_the_code_of_the_old_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _files(tmp_path, 1).save("floats", b"old")
    new, reader = _files(tmp_path, 2), _files(tmp_path, 2)
    seen = []
    write = new._save_data

    def interrupted(name: str, data: bytes) -> None:
        seen.append(reader.load("floats"))
        write(name, data)
        seen.append(reader.load("floats"))

    monkeypatch.setattr(new, "_save_data", interrupted)
    new.save("floats", b"new")
    assert seen == [None, None]
    assert reader.load("floats") == b"new"
