"""Read access to the registry leaves the process as it was."""

from __future__ import annotations

import json
import os
from pathlib import Path

import mlflow
import pytest
from mlflow import MlflowClient

from components.errors import KfrecError
from components.inference.model import named_model
from components.tracking.champion import using_store_of


@pytest.mark.slow
@pytest.mark.parametrize("registry", [None, "sqlite:////registry.db"])
def test_the_next_store_of_the_process_is_not_that_of_the_last_one(
    registry: str | None, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)
    if registry:
        monkeypatch.setenv("MLFLOW_REGISTRY_URI", registry)
    other = f"sqlite:///{tmp_path / 'other.db'}"
    with using_store_of(MlflowClient(other, registry_uri=other)):
        assert (mlflow.get_tracking_uri(), mlflow.get_registry_uri()) == (other, registry or other)
    assert (os.environ["MLFLOW_TRACKING_URI"], os.environ.get("MLFLOW_REGISTRY_URI")) == (store, registry)
    assert (mlflow.get_tracking_uri(), mlflow.get_registry_uri()) == (store, registry or store)


def test_no_python_of_a_registered_version_runs(store: str, tmp_path: Path) -> None:
    """MLflow would import the loader that the files of a version name."""
    source = tmp_path / "theirs"
    for folder in ("code", "artifacts"):
        (source / folder).mkdir(parents=True)
    (source / "code" / "theirs.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    flavor = {"loader_module": "theirs", "code": "code", "data": "artifacts"}
    (source / "MLmodel").write_text(json.dumps({"flavors": {"python_function": flavor}}))
    client = MlflowClient(store)
    client.create_registered_model("theirs")
    client.create_model_version("theirs", str(source))
    with pytest.raises(KfrecError, match=r"^theirs version 1: its files"), named_model("theirs/1"):
        pass
    assert not (tmp_path / "ran").exists()
