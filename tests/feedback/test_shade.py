"""A challenger scores what the champion has answered; the gate may want that before it promotes."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient

from components.feedback.step import run
from components.scoring import load_raw_model
from components.steps.catalog import STEPS
from components.tracking.standing import promote, rolled_back
from tests.fakes.linear_model import make_linear_model
from tests.feedback.conftest import (
    BEGIN,
    NAME,
    NOW,
    Shop,
    click_rate,
    columns,
    registered,
    scored,
    served_table,
    write_served,
)

VISITS = 6000


def changed_rate(visits: pd.DataFrame) -> np.ndarray:
    """Another law than that of the training data: now the age counts, as the champion has it."""
    logit = -1.5 - 0.25 * (visits["price"] - 10) + 0.1 * (visits["age"] - 40)
    return np.asarray(1 / (1 + np.exp(-logit)))


@pytest.fixture
def client(store: str) -> MlflowClient:
    return MlflowClient(store)


@pytest.fixture
def waiting(shop: Shop, client: MlflowClient, tmp_path: Path) -> dict:
    """The registration of a model that is better on the test split, and waits for two days of served rows."""
    make_linear_model(tmp_path / "model", shop.folder / "tfrecord", {"price": -1.2, "age": 0.2}, -1.5)
    return registered(shop.folder / "tfrecord", tmp_path / "model", tmp_path, promote_after_days=2)


def served_under(rate: np.ndarray, visits: pd.DataFrame, shop: Shop, folder: Path, days: float) -> dict[str, str]:
    """The folders of served rows and outcomes of the champion, by parameter."""
    random = np.random.default_rng(5)
    times = [BEGIN + timedelta(days=float(at)) for at in np.sort(random.uniform(0, days, len(visits)))]
    served = write_served(folder / "served", served_table(visits, scored(shop.model, visits), times))
    clicked = np.flatnonzero(random.random(len(visits)) < rate)
    pd.DataFrame({"request_id": [f"v1-{row}" for row in clicked]}).to_csv(folder / "came.csv", index=False)
    return {"served": str(served), "outcomes": str(folder / "came.csv"), "known_until": f"{NOW:%Y-%m-%d %H:%M}"}


def challenged(given: dict[str, str], folder: Path) -> tuple[dict, str]:
    """The comparison, and the summary of the step."""
    told = run(STEPS["feedback"].of(model_version=f"{NAME}@champion", experiment="shop", **given), feedback=folder)
    (found,) = json.loads((folder / "live.json").read_text())["challengers"]
    return found, told["summary"]


def champion(client: MlflowClient) -> str:
    return str(client.get_model_version_by_alias(NAME, "champion").version)


def test_a_better_challenger_waits_for_served_rows_and_is_promoted_by_them(
    shop: Shop, waiting: dict, client: MlflowClient, tmp_path: Path
) -> None:
    assert (waiting["alias"], waiting["version"], waiting["after_days"]) == ("challenger", 2, 2)
    assert "more than chance. It becomes the champion when feedback finds it better on 2 days" in waiting["reason"]
    visits = columns(np.random.default_rng(2), VISITS)
    one_day = served_under(click_rate(visits), visits, shop, tmp_path / "one", 1)
    found, _ = challenged(one_day, tmp_path / "out")
    assert found["difference_low"] > 0 and found["days"] == 1 and champion(client) == "1"
    two_days = served_under(click_rate(visits), visits, shop, tmp_path / "two", 2)
    found, told = challenged(two_days, tmp_path / "out")
    assert (found["version"], found["rows"], found["days"]) == ("2", VISITS, 2)
    assert "Version 2 in the shade: AUC" in told and "shop version 2 is the champion" in told
    assert champion(client) == "2" and "challenger" not in client.get_registered_model(NAME).aliases


def test_one_that_looks_better_in_the_offline_test_and_is_worse_live_is_not_promoted(
    shop: Shop, waiting: dict, client: MlflowClient, tmp_path: Path
) -> None:
    visits = columns(np.random.default_rng(2), VISITS)
    given = served_under(changed_rate(visits), visits, shop, tmp_path, 2)
    found, told = challenged(given, tmp_path / "out")
    assert waiting["difference"] > 0 > found["difference_high"]
    assert "worse by" in told and champion(client) == "1"
    assert "worse by" in (tmp_path / "out" / "report.html").read_text()


def test_rows_from_before_the_challenger_are_not_compared(
    shop: Shop, waiting: dict, client: MlflowClient, tmp_path: Path
) -> None:
    visits = columns(np.random.default_rng(2), 50)
    made = client.get_model_version(NAME, "2").creation_timestamp
    before = pd.Timestamp(made - 3_600_000, unit="ms", tz="UTC").to_pydatetime()
    served = write_served(tmp_path / "served", served_table(visits, scored(shop.model, visits), [before] * 50))
    (tmp_path / "came.csv").write_text("request_id\nv1-0\n")
    until = f"{before + timedelta(days=2):%Y-%m-%d %H:%M}"
    given = {"served": str(served), "outcomes": str(tmp_path / "came.csv"), "known_until": until}
    run(STEPS["feedback"].of(model_version=f"{NAME}@champion", experiment="shop", **given), feedback=tmp_path / "out")
    assert json.loads((tmp_path / "out" / "live.json").read_text())["challengers"] == []


def test_the_champion_before_returns_if_it_is_better_on_served_rows_and_a_rule_says_so(
    shop: Shop, waiting: dict, client: MlflowClient, tmp_path: Path
) -> None:
    promote(client, NAME, "2", "Ada", "it is better in the test")
    visits = columns(np.random.default_rng(2), VISITS)
    of_second = scored(load_raw_model(tmp_path / "model"), visits)
    times = [BEGIN + timedelta(minutes=minute) for minute in range(VISITS)]
    served = write_served(tmp_path / "served", served_table(visits, of_second, times, version="2"))
    clicked = np.flatnonzero(np.random.default_rng(5).random(VISITS) < changed_rate(visits))
    pd.DataFrame({"request_id": [f"v2-{row}" for row in clicked]}).to_csv(tmp_path / "came.csv", index=False)
    until = f"{times[-1] + timedelta(days=2):%Y-%m-%d %H:%M}"
    given = {"served": str(served), "outcomes": str(tmp_path / "came.csv"), "known_until": until}
    asked = {"model_version": f"{NAME}@champion", "experiment": "shop", **given}
    run(STEPS["feedback"].of(**asked), feedback=tmp_path / "out")
    assert champion(client) == "2"
    told = run(STEPS["feedback"].of(**asked, roll_back=True), feedback=tmp_path / "out")
    assert f"{NAME} version 1 is the champion again, instead of version 2" in told["summary"]
    assert champion(client) == "1"
    assert "better by" in rolled_back(client.get_model_version(NAME, "2"))
    (before,) = json.loads((tmp_path / "out" / "live.json").read_text())["champion_before"]
    assert before["version"] == "1" and before["difference_low"] > 0
