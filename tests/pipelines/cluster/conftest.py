from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.compilation import compiled
from pipelines.task_settings import load_settings
from tests.fakes.kfp_api import KfpApi


@pytest.fixture
def api() -> KfpApi:
    return KfpApi()


@pytest.fixture
def url(api: KfpApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    # The client keeps a file with the last namespace in the home folder.
    monkeypatch.setenv("HOME", str(tmp_path))
    with api.served() as url:
        yield url


@pytest.fixture(scope="session")
def ir() -> str:
    return compiled("training", load_settings())
