from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import MakeOnce
from tests.harm.place import build


@pytest.fixture(scope="session")
def pristine(made_once: MakeOnce, database: Path) -> Path:
    """Every artifact once; tests work on copies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{database}")
        return made_once("at-hand", build)


@pytest.fixture
def here(pristine: Path, tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of everything, which is the working folder."""
    folder = tmp_path / "here"
    shutil.copytree(pristine, folder, symlinks=True)
    monkeypatch.chdir(folder)
    return folder
