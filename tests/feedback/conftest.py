"""A shop whose users click by a known law: a registered model of tables, its served rows, and the outcomes."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.artifacts import adopt
from components.evaluate.step import run as evaluate
from components.preprocess.step import run as preprocess
from components.register.step import run as register
from components.scoring import RawModel, load_raw_model
from components.served_rows.schema import SCHEMA, file_of
from components.steps.catalog import STEPS, TfrecordParameters
from components.tfrecord.step import run as tfrecord
from tests.conftest import MakeOnce
from tests.fakes.linear_model import make_linear_model

NAME = "shop"
TABLE = """\
label: {column: bought}
split: {by: column, column: day, test: [2]}
columns:
  price: {role: numeric, bins: 0}
  age: {role: numeric, bins: 0}
"""
# The first hour of the served rows, which are newer than the models, and the hour at which the feedback is asked for.
BEGIN = datetime(2031, 3, 3, tzinfo=UTC)
NOW = BEGIN + timedelta(days=4)


def columns(random: np.random.Generator, rows: int) -> pd.DataFrame:
    """What the shop knows of a visit."""
    return pd.DataFrame({"price": random.normal(10, 4, rows).round(3), "age": random.normal(40, 9, rows).round(3)})


def click_rate(visits: pd.DataFrame) -> np.ndarray:
    """The law by which users click."""
    logit = -1.5 - 0.3 * (visits["price"] - 10) + 0.02 * (visits["age"] - 40)
    return np.asarray(1 / (1 + np.exp(-logit)))


def true_auc(model: RawModel, window_share: float = 1.0) -> float:
    """The AUC of a model among all visits: each is a positive with its click rate, and a negative with the rest.

    Args:
        window_share: of the clicks that come within the attribution window.
    """
    visits = columns(np.random.default_rng(99), 200_000)
    rate = click_rate(visits) * window_share
    order = np.argsort(scored(model, visits), kind="stable")
    below = np.concatenate([[0.0], np.cumsum(1 - rate[order])])
    wins = rate[order] * (below[:-1] + (1 - rate[order]) / 2)
    # A visit is not compared with itself.
    pairs = rate.sum() * (1 - rate).sum()
    return float(wins.sum() / pairs)


def scored(model: RawModel, visits: pd.DataFrame) -> np.ndarray:
    """The model's probabilities."""
    return model.score({name: pa.array(visits[name]) for name in visits}).outputs["probability"]


@dataclass(frozen=True)
class Shop:
    """Artifacts below ``folder``; version 1 of NAME is the champion, made of ``model``."""

    folder: Path

    @property
    def model(self) -> RawModel:
        """The champion."""
        return load_raw_model(self.folder / "model")


@pytest.fixture(scope="session")
def shop(made_once: MakeOnce, empty_database: Path) -> Shop:
    def make(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{shutil.copy(empty_database, folder)}")
            patch.delenv("MLFLOW_RUN_ID", raising=False)
            _make(folder)

    return Shop(made_once("feedback-shop", make))


@pytest.fixture
def store(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A copy of the store that the model is registered in."""
    uri = f"sqlite:///{shutil.copy(shop.folder / 'mlflow.db', tmp_path)}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    return uri


def registered(records: Path, model: Path, folder: Path, **gate: object) -> dict[str, Any]:
    """Evaluates and registers a model of the shop's records; returns what registration.json says.

    Args:
        gate: parameters of the register step.
    """
    read = dict(tfrecord=records, model=model)
    evaluate(STEPS["evaluate"].of(experiment="shop", control_samples=0), **read, evaluation=folder / "evaluation")
    usual = dict(registered_model=NAME, model_type="logistic_regression", auc_floor=0.5, require_baseline=False)
    register(
        STEPS["register"].of(experiment="shop", **usual | gate),
        **read, evaluation=folder / "evaluation", registration=folder / "registration",
    )  # fmt: skip
    body: dict[str, Any] = json.loads((folder / "registration" / "registration.json").read_text())
    return body


def _make(folder: Path) -> None:
    random = np.random.default_rng(1)
    visits = columns(random, 4000)
    labels = (random.random(4000) < click_rate(visits)).astype(int)
    raw = folder / "raw"
    raw.mkdir()
    visits.assign(bought=labels, day=np.where(np.arange(4000) < 3000, 1, 2)).to_csv(raw / "visits.csv", index=False)
    (raw / "schema.yaml").write_text(TABLE)
    adopt(raw)
    preprocess(STEPS["preprocess"].of(dataset="tabular", workers=1), raw=raw, parquet=folder / "parquet")
    tfrecord(TfrecordParameters(workers=1), parquet=folder / "parquet", tfrecord=folder / "tfrecord")
    make_linear_model(folder / "model", folder / "tfrecord", {"price": -1.0, "age": 0.9}, -1.5)
    registered(folder / "tfrecord", folder / "model", folder)


def served_table(
    visits: pd.DataFrame, probabilities: np.ndarray, times: list[datetime], version: str = "1"
) -> pa.Table:
    """Rows as the server logs them, one a request."""
    bodies = [json.dumps(row) for row in visits.to_dict("records")]
    count = len(visits)
    return pa.table(
        {
            "request_id": [f"v{version}-{number}" for number in range(count)],
            "row": [0] * count,
            "time": times,
            "model": [NAME] * count,
            "version": [version] * count,
            "variant": ["champion"] * count,
            "columns": bodies,
            "probability": np.asarray(probabilities, np.float64),
            "user": [None] * count,
            "rank": [None] * count,
            "item": [None] * count,
            "likelihood": [None] * count,
        },
        schema=SCHEMA,
    )


def write_served(folder: Path, table: pa.Table) -> Path:
    """The rows by day, in the layout of served rows."""
    days = table["time"].to_pandas().dt.floor("D")
    for day in sorted(days.unique()):
        path = folder / file_of(day, "test", len(list(folder.glob("*/*"))))
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.filter(pa.array(days == day)), path)
    return folder
