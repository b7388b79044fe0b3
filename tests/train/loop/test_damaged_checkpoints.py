"""A damaged checkpoint costs the steps since the one before it, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from components.errors import KfrecError
from components.train.failure import has_checkpoint
from components.train.loop.averages import Averages
from components.train.loop.checkpoint import Checkpoints, described, find_checkpoint, read_progress
from components.train.loop.listing import read_list
from components.train.loop.progress import TrainingProgress
from components.train.loop.ranks import Alone
from tests.train.loop.sharded import NAMES, built, training


def write_checkpoints(folder: Path, best: Mapping[int, str], placed: Mapping[str, str]) -> None:
    """Saves a checkpoint after each of these steps, with the name of the best epoch's so far."""
    model = built(Alone(), placed)
    _, optimizers, scale = training(model, Alone(), "adam")
    averages = Averages(model.trainable_variables, 0.0)
    checkpoints = Checkpoints(folder, model, optimizers, scale, averages, 0, lambda prefix, best: None)
    for step, name in best.items():
        progress = TrainingProgress(1, 30, 10, "adam", described(model), checkpoints.layout, step=step, best=name)
        checkpoints.save_parts(progress)
        checkpoints.forget_parts(checkpoints.save(progress, []))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_checkpoints(tmp_path, {5: "", 10: "", 15: ""}, dict.fromkeys(NAMES, "rows"))
    return tmp_path


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("ckpt-15.data-00000-of-00001", cut),
        ("ckpt-15.data-00000-of-00001", flip_a_byte),
        ("ckpt-15.data-00000-of-00001", Path.unlink),
        ("ckpt-15.index", cut),
        ("ckpt-15.table-2.0.npy", cut),
    ],
)
def test_a_damaged_newest_checkpoint_is_skipped_in_one_line(
    folder: Path, file: str, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    damage(folder / file)
    assert find_checkpoint(str(folder)) == str(folder / "ckpt-10")
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{folder / 'ckpt-15'}") and line.endswith(": skipped, ckpt-10 is taken instead")


def test_checkpoints_are_found_by_their_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in folder.glob("ckpt-15.*"):
        file.unlink()
    assert find_checkpoint(str(folder)) == str(folder / "ckpt-10")
    (folder / "checkpoint").write_bytes(b"\xff\x00 no list")
    assert find_checkpoint(str(folder)) == str(folder / "ckpt-10")
    (folder / "checkpoint").unlink()
    assert has_checkpoint(folder) and find_checkpoint(str(folder)) == str(folder / "ckpt-10")
    assert capsys.readouterr().out == ""


def test_the_newest_is_named_where_all_are_damaged(folder: Path) -> None:
    for file in folder.glob("*.data-*"):
        cut(file)
    with pytest.raises(KfrecError, match=r"ckpt-15: .*; give another"):
        find_checkpoint(str(folder))


def test_each_kept_checkpoint_has_that_of_its_best_epoch(tmp_path: Path) -> None:
    write_checkpoints(tmp_path, {5: "ckpt-5", 10: "ckpt-5", 15: "ckpt-5", 20: "ckpt-5", 25: "ckpt-25"}, {})
    assert read_list(tmp_path) == ["ckpt-5", "ckpt-15", "ckpt-20", "ckpt-25"]
    (tmp_path / "ckpt-25.index").unlink()
    assert read_progress(find_checkpoint(str(tmp_path))).best == "ckpt-5"
