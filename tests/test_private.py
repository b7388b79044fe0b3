"""What other users of the machine plant is not followed, and not read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from components.errors import KfrecError
from components.inference.scoring import replacing
from components.private import is_private, modes_of, open_own, private_folder


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text("precious")
    return path


def test_a_planted_link_is_not_followed(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "lock").symlink_to(victim)
    with pytest.raises(KfrecError, match="lock: is a symbolic link, which somebody else may have made; remove it"):
        open_own(tmp_path / "lock")
    os.close(open_own(tmp_path / "own"))
    assert not (tmp_path / "own").stat().st_mode & 0o007


def test_predictions_do_not_follow_a_link_that_waits_beside_them(tmp_path: Path, victim: Path) -> None:
    (tmp_path / ".scores.csv.kfrec.partial").symlink_to(victim)
    with pytest.raises(KfrecError, match="is a symbolic link"), replacing(tmp_path / "scores.csv", [], ("score",)):
        pass
    assert victim.read_text() == "precious"


@pytest.mark.parametrize(
    ("folder", "file", "below"),
    [(0o755, 0o600, 0o700), (0o2755, 0o600, 0o2700), (0o777, 0o600, 0o700), (0o2770, 0o660, 0o2770)],
)
def test_what_is_made_in_a_folder_is_closed_or_the_groups(folder: int, file: int, below: int, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work").chmod(folder)
    earlier = os.umask(0)
    try:
        with modes_of(tmp_path / "work" / "runs") as mode:
            (tmp_path / "work" / "runs" / "cache").mkdir(parents=True)
            (tmp_path / "work" / "runs" / "file").touch()
        assert os.umask(0) == 0
    finally:
        os.umask(earlier)
    assert mode == file == (tmp_path / "work" / "runs" / "file").stat().st_mode & 0o777
    assert all(
        path.stat().st_mode & 0o7777 == below for path in (tmp_path / "work" / "runs").rglob(".") if path.is_dir()
    )


@pytest.mark.parametrize(("mode", "private"), [(0o700, True), (0o755, True), (0o777, False), (0o1777, False)])
def test_a_folder_is_private_if_nobody_else_may_write_to_it(tmp_path: Path, mode: int, private: bool) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    assert is_private(folder) == private


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of another user")
def test_a_folder_of_another_user_is_not_private(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 12345)
    assert not is_private(tmp_path)


@pytest.mark.parametrize("planted", ["folder", "link"])
def test_the_folder_for_records_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = private_folder("stage")
    assert folder.parent == tmp_path and folder.stat().st_mode & 0o777 == 0o700
    folder.rmdir()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs").chmod(0o777)
    if planted == "link":
        folder.symlink_to(tmp_path / "theirs")
    else:
        (tmp_path / "theirs").rename(folder)
    with pytest.raises(KfrecError, match="is not a folder of this user alone; remove it"):
        private_folder("stage")
