"""Where machine code is cached, and that processes share it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from components.native import compiled
from components.native.compiled import kernel

_CALL = """
import numpy as np
from components.native.compiled import _FOLDER
from tests.native.test_compiled import _outer
assert _outer(np.array([1.0, 2.0])) == 4.0
assert _outer(np.array([1, 2])) == 4
print(sum(_outer.stats.cache_hits.values()))
"""


@kernel
def _inner(values, at):
    return values[at] * 2


@kernel
def _outer(values):
    return _inner(values, 1)


def _started(cache: Path, **variables: str) -> "subprocess.Popen[str]":
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)} | variables
    return subprocess.Popen([sys.executable, "-c", _CALL], env=environment, stdout=subprocess.PIPE, text=True)


def _hits(process: "subprocess.Popen[str]") -> int:
    output, _ = process.communicate()
    assert process.returncode == 0
    return int(output)


@pytest.mark.slow
def test_machine_code_of_another_processor_is_never_loaded(tmp_path: Path):
    features = ["+sse4.2,+popcnt", "+sse4.2,+popcnt,+bmi2"]
    runs = [_started(tmp_path, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES=these) for these in features]
    assert [_hits(run) for run in runs] == [0, 0]
    assert _hits(_started(tmp_path, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES=features[0])) == 2


@pytest.mark.slow
def test_of_processes_that_start_at_once_one_compiles_each_signature(tmp_path: Path):
    runs = [_started(tmp_path) for _ in range(3)]
    assert sum(_hits(run) for run in runs) == 4
    assert _hits(_started(tmp_path)) == 2


@pytest.mark.slow
def test_kernels_run_without_a_cache(tmp_path: Path):
    (tmp_path / "file").touch()
    assert _hits(_started(tmp_path / "file")) == 0


def _folder(parent: Path, monkeypatch: pytest.MonkeyPatch) -> Path | None:
    monkeypatch.setattr(compiled.config, "CACHE_DIR", str(parent))
    return compiled._cache_folder()


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Numba unpickles what it finds there."""
    folder = _folder(tmp_path, monkeypatch)
    assert folder is not None and folder.parent == tmp_path
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    assert _folder(tmp_path, monkeypatch) is None


def test_an_edit_of_a_kernel_changes_the_folder_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiled, "_COMPONENTS", tmp_path)
    (tmp_path / "records").mkdir()
    folders = []
    for content in ("one", "other", "one"):
        (tmp_path / "records" / "words.py").write_text(content)
        folders.append(_folder(tmp_path, monkeypatch))
    assert folders[0] == folders[2] != folders[1]


def test_a_kernel_that_calls_another_one_takes_the_lock_once():
    assert _outer(np.array([1.0, 10.0])) == 20.0
