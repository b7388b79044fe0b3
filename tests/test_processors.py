"""make test-processors: what it runs, and what it says of what it cannot run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import processors

_SMALL = frozenset({"sse3", "ssse3", "sse4.1", "sse4.2", "crc32", "popcnt", "cx16", "sahf"})


def of(name: str) -> processors.Configuration:
    (found,) = (each for each in processors.CONFIGURATIONS if each.name == name)
    return found


def written(folder: Path, body: str) -> str:
    (folder / "test_it.py").write_text(f"def test_it():\n    {body}\n")
    return str(folder / "test_it.py")


@pytest.mark.slow
def test_a_configuration_that_the_processor_lacks_is_said_and_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processors, "features", lambda: _SMALL)
    assert processors.main(["SSE41", "AVX512_CORE", "--tests", written(tmp_path, "pass")]) == 0
    ran, lacking = capsys.readouterr().out.splitlines()
    assert ran.startswith("SSE41, 1 thread") and "1 passed in " in ran
    assert "AVX512_CORE, 2 threads" in lacking and "not run: this processor lacks AVX512_CORE (avx, avx2, " in lacking


@pytest.mark.slow
def test_a_test_that_fails_in_one_configuration_fails_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = written(tmp_path, "import os; assert 'NUMBA_CPU_FEATURES' not in os.environ, 'on SSE4.1'")
    assert processors.main(["SSE41", "without oneDNN", "--tests", test]) == 1
    said = capsys.readouterr().out
    assert "SSE41, 1 thread             1 failed in " in said and "AssertionError: on SSE4.1" in said
    assert "without oneDNN, 1 thread    1 passed in " in said


def test_nothing_that_ran_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors, "features", frozenset)
    assert processors.main(["AVX2"]) == 1


def test_an_instruction_set_limits_everything_that_computes() -> None:
    environment = of("AVX2").environment()
    assert environment["ONEDNN_MAX_CPU_ISA"] == "AVX2" and environment["OPENBLAS_CORETYPE"] == "Haswell"
    assert "+avx2" in environment["NUMBA_CPU_FEATURES"] and "avx512" not in environment["NUMBA_CPU_FEATURES"]
    assert "AVX512F" in environment["NPY_DISABLE_CPU_FEATURES"] and "-AVX512F" in environment["GLIBC_TUNABLES"]
    assert environment["TF_NUM_INTRAOP_THREADS"] == environment["OMP_NUM_THREADS"] == "2"


def test_the_tests_are_there() -> None:
    assert all((Path(__file__).parents[1] / name).exists() for name in processors.TESTS)
