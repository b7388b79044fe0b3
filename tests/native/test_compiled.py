"""How often kernels are compiled, and their files, where several processes write them at once."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, TimeoutError
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from components.native.compiled import _MachineCode, kernel
from tests.waiting import LONGEST


@kernel
def _scaled(doubled, values, at):
    return values[at] * (2 if doubled else 1)


@kernel
def _of_all_kinds(values, at):
    return _scaled(True, values, 0) + _scaled(False, values, 1) + _scaled(at > 0, values, at)


def test_a_kernel_is_compiled_once_whatever_numbers_its_calls_name():
    scaled: Any = _scaled  # a dispatcher of Numba, which has no types
    of_all_kinds: Any = _of_all_kinds
    scaled.recompile()
    of_all_kinds.recompile()
    assert of_all_kinds(np.array([1.0, 10.0, 100.0]), 2) == 212.0
    assert len(scaled.signatures) == 1


_OF_ANOTHER_PROCESSOR = """
import numpy as np
from tests.native.test_compiled import _scaled
_scaled(False, np.zeros(2), 1)
print(len(_scaled.stats.cache_hits))
"""


@pytest.mark.slow
def test_machine_code_of_another_processor_is_never_loaded(tmp_path: Path):
    def hits(**variables: str) -> str:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)} | variables
        words = [sys.executable, "-c", _OF_ANOTHER_PROCESSOR]
        return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    features = ["+sse4.2,+popcnt", "+sse4.2,+popcnt,+bmi2"]
    assert [hits(NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES=these) for these in (*features, *features)] == [
        "0", "0", "1", "1"
    ]  # fmt: skip


def _files(folder: Path, version: int) -> _MachineCode:
    return _MachineCode(str(folder), "kernel", version)


def test_what_one_process_saves_another_loads(tmp_path: Path):
    _files(tmp_path, 1).save("floats", b"code")
    assert _files(tmp_path, 1).load("floats") == b"code"
    assert _files(tmp_path, 1).load("integers") is None


def test_a_folder_that_others_may_write_to_is_not_read(tmp_path: Path):
    """Numba unpickles what it finds there."""
    _files(tmp_path, 1).save("a key", b"the code")
    tmp_path.chmod(0o777)
    assert _files(tmp_path, 1).load("a key") is None
    tmp_path.chmod(0o755)
    assert _files(tmp_path, 1).load("a key") == b"the code"


def test_a_process_waits_for_one_that_compiles_the_same(tmp_path: Path):
    first, second = _files(tmp_path, 1), _files(tmp_path, 1)
    assert first.load("floats") is None  # and is now the one to compile
    with ThreadPoolExecutor(1) as other:
        loaded = other.submit(second.load, "floats")
        with pytest.raises(TimeoutError):
            loaded.result(0.3)
        first.save("floats", b"code")
        assert loaded.result(LONGEST) == b"code"


def test_a_process_that_fails_to_compile_is_not_waited_for_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("components.native.compiled._LONGEST_COMPILATION", 0.2)
    first = _files(tmp_path, 1)
    assert first.load("floats") is None
    assert _files(tmp_path, 1).load("floats") is None


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


def test_types_of_a_module_that_has_moved_are_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    moved = ModuleType("moved")
    exec("class Vector: pass", moved.__dict__)
    with monkeypatch.context() as old:
        old.setitem(sys.modules, "moved", moved)
        _files(tmp_path, 1).save(("vectors", moved.Vector), b"code")
    assert _files(tmp_path, 2).load("floats") is None
    _files(tmp_path, 2).save("floats", b"code")
    assert _files(tmp_path, 2).load("floats") == b"code"
