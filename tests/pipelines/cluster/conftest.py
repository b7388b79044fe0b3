from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipelines.defaults import Pipeline
from tests.fakes.kfp_api import KfpApi
from tests.fakes.kfp_description import check_answers


@pytest.fixture
def api() -> Iterator[KfpApi]:
    """An empty KFP; if its API description is available, all responses are validated against it."""
    api = KfpApi()
    yield api
    if "KFREC_SCHEMAS" in os.environ:
        check_answers(Path(os.environ["KFREC_SCHEMAS"]), api.answered)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, compiled_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client keeps a file with the last namespace in the home folder; the command wants a registry."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KFREC_REGISTRY", "registry.team.org")


@pytest.fixture
def url(api: KfpApi) -> Iterator[str]:
    with api.served() as url:
        yield url


@pytest.fixture
def ir(compiled_ir: Callable[[Pipeline], str]) -> str:
    """The compiled training pipeline."""
    return compiled_ir(Pipeline())
