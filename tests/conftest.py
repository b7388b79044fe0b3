"""What all tests share: where the real data and the schemas are, and small raw data sets."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipelines.defaults import Pipeline
from tests.fakes.file_server import server
from tests.fakes.mlflow_server import mlflow_server
from tests.fakes.object_stores import gcs_bucket, gcs_emulator, prefix, s3_client, s3_emulator
from tests.fakes.postgres import postgres

# kfp inspects the stack for every task that it compiles. The bottom frames of an xdist worker have no file, and each
# look for their module goes through all that TensorFlow and MLflow import.
inspect.modulesbyfile["<string>"] = "__main__"

__all__ = ["gcs_bucket", "gcs_emulator", "mlflow_server", "postgres", "prefix", "s3_client", "s3_emulator", "server"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first, or the last of them would leave all cores but one idle at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def _folder_from(variable: str) -> Path:
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} is not set: it names a folder that does not travel with the code")
    return Path(value)


@pytest.fixture(scope="session")
def compiled_ir(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Pipeline], str]:
    """The IR YAML of a pipeline with the default settings; all workers of the session compile it once."""
    from pipelines.compilation import compiled
    from pipelines.task_settings import load_settings

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "compiled"
    folder.mkdir(exist_ok=True)

    def ir(pipeline: Pipeline) -> str:
        path = folder / f"{pipeline.name}.yaml"
        if not path.exists():
            # Another worker may compile it at the same time, to the same text.
            part = folder / f"{pipeline.name}.{os.getpid()}"
            part.write_text(compiled(pipeline, load_settings()))
            part.replace(path)
        return path.read_text()

    return ir


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder with amazon_beauty/ and amazon_digital_music/."""
    return _folder_from("KFREC_DATA")


@pytest.fixture(autouse=True)
def tracking_uri_stays() -> Iterator[None]:
    """What a command that runs in this process makes of MLflow's address is forgotten after the test."""
    before = os.environ.get("MLFLOW_TRACKING_URI")
    yield
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    if before is not None:
        os.environ["MLFLOW_TRACKING_URI"] = before


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One SQLite store of MLflow for all tests: creating its tables takes seconds."""
    return tmp_path_factory.mktemp("mlflow") / "runs" / "mlflow.db"


@pytest.fixture
def store(database: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of that store, set as the tracking URI."""
    uri = f"sqlite:///{database}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    return uri
