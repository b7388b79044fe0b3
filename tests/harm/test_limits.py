"""Steps whose disk is full: one line, nothing published, the inputs as they were."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.steps.catalog import STEPS
from tests.harm.place import folders_of, run_here

pytestmark = pytest.mark.slow
_OPTIONS = {
    "download": ["--synthetic_users=3000"],
    "preprocess": ["--workers=1"],
    "tfrecord": ["--workers=1"],
    "predict": ["--beside=false"],
}
_WRITING = [name for name in STEPS if name in ("download", "preprocess", "tfrecord", "evaluate", "predict")]


@pytest.fixture
def small_disk(here: Path) -> Iterator[Path]:
    """A file system of 16 KiB, in the working folder."""
    folder = here / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root may mount a small file system")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.parametrize("step", _WRITING)
def test_a_full_disk_is_one_line(step: str, small_disk: Path, capfd: pytest.CaptureFixture[str]) -> None:
    outcome = run_here([step, *folders_of(step, "small/out"), *_OPTIONS.get(step, ())], capfd)
    assert not outcome.surprise(step, "the disk is full")
    assert list(small_disk.iterdir()) == []
