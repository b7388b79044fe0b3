from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One SQLite store for all tests here (creating its tables takes seconds): each test has its own experiment."""
    return tmp_path_factory.mktemp("mlflow") / "runs" / "mlflow.db"


@pytest.fixture
def store(database: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    uri = f"sqlite:///{database}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    return uri
