from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.harm.place import build


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Path:
    """Every artifact once; tests work on copies."""
    folder = tmp_path_factory.mktemp("pristine") / "at-hand"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{database}")
        build(folder)
    return folder


@pytest.fixture
def here(pristine: Path, tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of everything, which is the working folder."""
    folder = tmp_path / "here"
    shutil.copytree(pristine, folder, symlinks=True)
    monkeypatch.chdir(folder)
    return folder
