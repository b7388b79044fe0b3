"""Feedback of a model of histories: users are the units, and labelled rows keep histories as they came."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from components.feedback.step import run
from components.served_rows.table import read_served
from components.steps.catalog import STEPS
from pipelines.cli import main
from tests.predict.conftest import REGISTERED, Served

MODEL = f"{REGISTERED}@champion"
UNTIL = f"{datetime.now(UTC) + timedelta(days=2):%Y-%m-%d %H:%M}"


def feedback(log: Path, came: pd.DataFrame, folder: Path) -> tuple[dict, dict]:
    """What the step tells, and live.json."""
    came.to_csv(folder / "came.csv", index=False)
    given = {"served": str(log), "outcomes": str(folder / "came.csv"), "known_until": UNTIL}
    told = run(STEPS["feedback"].of(model_version=MODEL, experiment="served", **given), feedback=folder / "feedback")
    return dict(told), json.loads((folder / "feedback" / "live.json").read_text())


@pytest.mark.usefixtures("store")
def test_scored_rows_are_judged_by_users_and_keep_their_histories(served: Served, tmp_path: Path) -> None:
    pd.DataFrame(served.rows).to_json(tmp_path / "rows.jsonl", orient="records", lines=True)
    log = tmp_path / "log"
    words = [f"--input={tmp_path / 'rows.jsonl'}", f"--output={tmp_path / 'out.jsonl'}", f"--log={log}"]
    assert main(["predict", MODEL, *words]) == 0
    (table,) = read_served(str(log))
    chosen = np.random.default_rng(0).random(len(served.rows)) < 0.5
    came = pd.DataFrame({"request_id": table["request_id"].to_pylist(), "row": table["row"].to_pylist()})[chosen]
    told, live = feedback(log, came, tmp_path)
    (day,) = live["days"]
    assert (day["skew_share"], day["unknown_share"], day["live_positives"]) == (0, 0, chosen.sum())
    assert day["live_grouped_auc_users"] <= len(served.users)
    assert told["rows"] == len(served.rows) and not live["raw"]
    (path,) = (tmp_path / "feedback").glob("labelled-*.parquet")
    rows = pq.read_table(path)
    assert set(rows.column_names) == {"user", "history", "item", "request_id", "served_at", "label"}
    assert rows["history"].to_pylist() == [row["history"] for row in served.rows]
    np.testing.assert_array_equal(rows["label"].to_numpy(), chosen)
    assert not (tmp_path / "feedback" / "schema.yaml").exists()


@pytest.mark.usefixtures("store")
def test_lists_are_joined_by_user_item_and_time(served: Served, tmp_path: Path) -> None:
    users = pd.DataFrame({"user": served.users[:20], "history": [served.items[:2]] * 20})
    users.to_json(tmp_path / "users.jsonl", orient="records", lines=True)
    log = tmp_path / "log"
    words = [f"--users={tmp_path / 'users.jsonl'}", "--top=5", f"--output={tmp_path / 'lists.csv'}", f"--log={log}"]
    assert main(["recommend", f"--model={MODEL}", *words]) == 0
    (table,) = read_served(str(log))
    seconds = [f"{datetime.now(UTC) + timedelta(minutes=1):%Y-%m-%d %H:%M:%S}"] * 20
    first = table.filter([rank == 1 for rank in table["rank"].to_pylist()])
    came = pd.DataFrame({"user": first["user"].to_pylist(), "item": first["item"].to_pylist(), "time": seconds})
    told, live = feedback(log, came[:12], tmp_path)
    total = live["total"]
    assert (total["live_lists"], total["live_hr"], total["live_ndcg"]) == (20, 0.6, 0.6)
    assert told["rows"] == 0 and live["metric"]["label"] == "NDCG of lists"
    assert "Live NDCG of lists 0.6000" in (tmp_path / "feedback" / "report.html").read_text()
