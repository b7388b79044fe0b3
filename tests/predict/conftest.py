"""A registered model of reviews, made by the real steps but for its training."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from components.download.step import run as download
from components.evaluate.step import run as evaluate
from components.preprocess.step import run as preprocess
from components.register.step import run as register
from components.steps.catalog import STEPS, TfrecordParameters
from components.tfrecord.step import run as tfrecord
from tests.conftest import MakeOnce
from tests.fakes.raw_rows import raw_rows
from tests.fakes.reading_model import make_reading_model

REGISTERED = "served-reviews"
INPUTS = ("uid", "item_trgt", "cat_trgt", "item_pos", "cat_pos")


@dataclass(frozen=True)
class Served:
    """Artifacts of a run, by name, below ``folder``; the model is registered as REGISTERED."""

    folder: Path

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The test samples as a person knows them."""
        return raw_rows(self.folder / "tfrecord")

    @property
    def users(self) -> list[str]:
        """The users of the vocabulary."""
        return self._names("uid")

    @property
    def items(self) -> list[str]:
        """The items of the vocabulary."""
        return self._names("item")

    def _names(self, vocabulary: str) -> list[str]:
        path = self.folder / "tfrecord" / "vocabulary" / f"{vocabulary}.parquet"
        names: list[str] = pq.read_table(path)["value"].to_pylist()
        return names

    @property
    def scores(self) -> np.ndarray:
        """What the evaluate step wrote for them."""
        return pq.read_table(self.folder / "evaluation" / "predictions.parquet")["probability"].to_numpy()


@pytest.fixture(scope="session")
def served(made_once: MakeOnce, empty_database: Path) -> Served:
    def make(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{shutil.copy(empty_database, folder)}")
            patch.delenv("MLFLOW_RUN_ID", raising=False)
            _make(folder)

    return Served(made_once("served", make))


@pytest.fixture(scope="session")
def database(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the store that the model is registered in."""
    return Path(shutil.copy(served.folder / "mlflow.db", tmp_path_factory.mktemp("mlflow")))


def _make(folder: Path) -> None:
    small = STEPS["download"].of(synthetic_users=40, synthetic_items=60, synthetic_categories=5)
    download(small, raw=folder / "raw")
    preprocess(STEPS["preprocess"].of(workers=1, split="last_item"), raw=folder / "raw", parquet=folder / "parquet")
    tfrecord(TfrecordParameters(workers=1), parquet=folder / "parquet", tfrecord=folder / "tfrecord")
    make_reading_model(folder / "model", folder / "tfrecord", INPUTS)
    read = dict(tfrecord=folder / "tfrecord", model=folder / "model")
    evaluate(STEPS["evaluate"].of(experiment="served"), **read, evaluation=folder / "evaluation")
    register(
        STEPS["register"].of(
            registered_model=REGISTERED, experiment="served", auc_floor=0.01, require_baseline=False
        ),
        **read, evaluation=folder / "evaluation", registration=folder / "registration",
    )  # fmt: skip
