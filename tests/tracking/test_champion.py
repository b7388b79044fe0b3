"""Read access to the registry leaves the process as it was."""

from __future__ import annotations

import os
from pathlib import Path

import mlflow
import pytest
from mlflow import MlflowClient

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
