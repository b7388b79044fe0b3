"""What all tests share: where the real data and the schemas are, and small raw data sets."""

from __future__ import annotations

import fcntl
import inspect
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipelines.defaults import Pipeline
from pipelines.task_settings import ClusterSettings
from tests.fakes.file_server import server
from tests.fakes.mlflow_server import mlflow_server
from tests.fakes.object_stores import gcs_bucket, gcs_emulator, prefix, s3_client, s3_emulator
from tests.fakes.postgres import postgres
from tests.train.ranks import TOGETHER, run_together

# kfp inspects the stack for every task that it compiles. The bottom frames of an xdist worker have no file, and each
# look for their module goes through all that TensorFlow and MLflow import.
inspect.modulesbyfile["<string>"] = "__main__"
# Ranks over MPI that wait for a message leave their cores to others, instead of polling at full speed.
os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")

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


MakeOnce = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MakeOnce:
    """Fills a folder in the first worker that asks for its name; the others wait for it. It is only read afterwards."""
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "made"
    root.mkdir(exist_ok=True)

    def make(name: str, fill: Callable[[Path], object]) -> Path:
        folder, finished = root / name, root / f"{name}.finished"
        with (root / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not finished.exists():
                shutil.rmtree(folder, ignore_errors=True)  # of a worker that failed
                folder.mkdir()
                fill(folder)
                finished.touch()
        return folder

    return make


@pytest.fixture(scope="session")
def compiled_ir(made_once: MakeOnce) -> Callable[[Pipeline], str]:
    """The IR YAML of a pipeline with the default settings."""
    from pipelines.compilation import compiled
    from pipelines.task_settings import load_settings

    def ir(pipeline: Pipeline) -> str:
        def write(folder: Path) -> None:
            (folder / "ir.yaml").write_text(compiled(pipeline, load_settings()))

        return (made_once(pipeline.name, write) / "ir.yaml").read_text()

    return ir


@pytest.fixture(scope="session")
def compiled_pipelines() -> dict[str, str]:
    """What was compiled before, by the pipeline and the cluster's settings."""
    return {}


@pytest.fixture
def compiled_once(compiled_pipelines: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands compile what no command before has compiled, which takes longer than all else that they do."""
    from pipelines import compilation

    compile_anew = compilation.compiled

    def compiled(pipeline: Pipeline, settings: ClusterSettings) -> str:
        key = repr((pipeline, settings))
        if key not in compiled_pipelines:
            compiled_pipelines[key] = compile_anew(pipeline, settings)
        return compiled_pipelines[key]

    monkeypatch.setattr(compilation, "compiled", compiled)


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
def two_ranks(made_once: MakeOnce, request: pytest.FixtureRequest) -> Path:
    """What two ranks wrote for the modules of ranks.TOGETHER that are tested, each in a folder of its name."""
    tested = {item.module.__name__ for item in request.session.items if isinstance(item, pytest.Function)}
    return made_once("two-ranks", lambda folder: run_together(folder, [name for name in TOGETHER if name in tested]))


@pytest.fixture(scope="session")
def empty_database(made_once: MakeOnce) -> Path:
    """An SQLite store of MLflow without a run, to be copied: creating its tables takes seconds."""
    from components.tracking.database import prepare_database

    return made_once("database", lambda folder: prepare_database(folder / "mlflow.db")) / "mlflow.db"


@pytest.fixture(scope="session")
def database(empty_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One SQLite store of MLflow for all tests of a worker."""
    folder = tmp_path_factory.mktemp("mlflow") / "runs"
    folder.mkdir()
    return Path(shutil.copy(empty_database, folder))


@pytest.fixture
def store(database: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of that store, set as the tracking URI."""
    uri = f"sqlite:///{database}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    return uri
