"""A disk that fills up while a model is trained: a real file system of one megabyte."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.artifacts import publishing
from components.errors import KfrecError, explain_os_error
from components.steps.catalog import STEPS
from components.steps.command import command
from components.train.step import run
from tests.train.dataset import write_dataset
from tests.train.in_process import InProcess


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"only root may mount a small file system: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


# Small to compute, and with weights and moments of more than the disk holds.
PARAMETERS = STEPS["train"].of(model_type="din", global_batch_size=100, embedding_dim=100, epochs=1, seed=3)


@pytest.mark.slow
@pytest.mark.usefixtures("store")
def test_a_disk_that_fills_up_is_one_line_and_leaves_the_earlier_model(small_disk: Path, tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "tfrecord", train=100, test=20)
    with publishing(small_disk / "model", step="train") as staging:
        (staging.path / "weights").write_text("earlier")
    with pytest.raises(KfrecError) as raised:
        run(PARAMETERS, tfrecord=data, model=small_disk / "model", launcher=InProcess())
    assert "the disk is full; free some space or choose another folder" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert (small_disk / "model" / "weights").read_text() == "earlier"


@pytest.mark.usefixtures("store")
def test_a_read_only_disk_is_one_line_before_anything_starts(
    small_disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_dataset(tmp_path / "tfrecord", train=100, test=20)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    arguments = ["--tfrecord", str(data), "--model", str(small_disk / "model"), "--global_batch_size", "100"]
    assert command("train", arguments) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("error: train: ") and line.endswith("the file system is read-only; choose another folder")


def test_a_copy_that_fills_the_disk_is_one_line(small_disk: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    for number in range(3):
        (made / f"ckpt-{number}").write_bytes(bytes(600_000))
    with pytest.raises(shutil.Error) as raised:
        shutil.copytree(made, small_disk / "copy")
    explained = str(explain_os_error(raised.value))
    assert re.fullmatch(
        rf"{small_disk}/copy/ckpt-\d: the disk is full; free some space or choose another folder", explained
    )


def test_a_copy_that_fails_otherwise_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "link").symlink_to("nowhere")
    with pytest.raises(shutil.Error) as raised:
        shutil.copytree(tmp_path / "made", tmp_path / "copy")
    assert str(explain_os_error(raised.value)).startswith(f"{tmp_path}/made/link: is not there")
