"""Batch predictions write served rows: the commands and the steps, all of a call or nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from components.errors import KfrecError
from components.predict.step import run as predict
from components.recommend.step import run as recommend
from components.served_rows.table import read_served
from components.steps.catalog import PredictParameters, RecommendParameters
from pipelines.cli import main
from tests.predict.conftest import REGISTERED, Served

pytestmark = pytest.mark.usefixtures("store")
MODEL = f"{REGISTERED}@champion"


def logged(folder: Path) -> list[dict[str, Any]]:
    return [row for table in read_served(str(folder)) for row in table.to_pylist()]


def require_scored(rows: list[dict[str, Any]], served: Served) -> None:
    """One call, with the columns as they came and the scores of the evaluation."""
    assert len({row["request_id"] for row in rows}) == 1
    assert {(row["model"], row["version"], row["variant"]) for row in rows} == {(REGISTERED, "1", "batch")}
    assert [row["row"] for row in rows] == list(range(len(served.rows)))
    columns = [json.loads(row["columns"]) for row in rows]
    assert columns == [{name: row[name] for name in ("user", "history", "item")} for row in served.rows]
    assert [(row["user"], row["item"]) for row in rows] == [(row["user"], row["item"]) for row in served.rows]
    np.testing.assert_allclose([row["probability"] for row in rows], served.scores, atol=1e-6)


def test_predict_logs_the_rows_with_their_columns(served: Served, tmp_path: Path) -> None:
    pd.DataFrame(served.rows).to_parquet(tmp_path / "rows.parquet")
    words = ["--input", str(tmp_path / "rows.parquet"), "--output", str(tmp_path / "scores.csv"), "--batch-size=7"]
    assert main(["predict", MODEL, *words, "--log", str(tmp_path / "served")]) == 0
    require_scored(logged(tmp_path / "served"), served)


def test_the_predict_step_logs_all_files_as_one_call(served: Served, tmp_path: Path) -> None:
    place = tmp_path / "days"
    place.mkdir()
    rows = pd.DataFrame(served.rows)
    rows[:30].to_parquet(place / "one.parquet")
    rows[30:].to_parquet(place / "two.parquet")
    parameters = PredictParameters(MODEL, str(place), log=str(tmp_path / "served"))
    predict(parameters, predictions=tmp_path / "out")
    require_scored(logged(tmp_path / "served"), served)


def test_a_call_that_fails_logs_nothing(served: Served, tmp_path: Path) -> None:
    rows = [*served.rows[:5], served.rows[0] | {"history": ["B1", None]}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "days").mkdir()
    pd.DataFrame(served.rows).to_parquet(tmp_path / "days" / "one.parquet")
    pd.DataFrame(served.rows).drop(columns="user").to_parquet(tmp_path / "days" / "two.parquet")
    parameters = PredictParameters(MODEL, str(tmp_path / "days"), log=str(tmp_path / "served"))
    with pytest.raises(KfrecError, match=r"two\.parquet: has no column user"):
        predict(parameters, predictions=tmp_path / "out")
    assert not logged(tmp_path / "served")


def test_lists_are_logged_by_the_command_and_by_the_step(served: Served, tmp_path: Path) -> None:
    output, events = tmp_path / "lists.parquet", f"--events={served.folder / 'raw'}"
    words = [f"--model={MODEL}", events, f"--output={output}", "--top=3", f"--log={tmp_path / 'a'}"]
    assert main(["recommend", "--all", *words]) == 0
    parameters = RecommendParameters(MODEL, top=3, log=str(tmp_path / "b"))
    recommend(parameters, raw=served.folder / "raw", lists=tmp_path / "out")
    lists = pd.read_parquet(output)
    for folder in ("a", "b"):
        rows = logged(tmp_path / folder)
        assert {(row["model"], row["version"], row["variant"]) for row in rows} == {(REGISTERED, "1", "batch")}
        found = pd.DataFrame(rows)[["user", "rank", "item", "likelihood"]].sort_values(["user", "rank"])
        wanted = lists.iloc[:, :4].set_axis(found.columns, axis=1).sort_values(["user", "rank"])
        assert found.iloc[:, :3].values.tolist() == wanted.iloc[:, :3].values.tolist()
        np.testing.assert_allclose(found["likelihood"], wanted["likelihood"], atol=1e-6)
        assert all(row["columns"] is row["probability"] is None for row in rows)
        of_user = {(row["user"], row["row"]) for row in rows}
        assert len(of_user) == lists["user"].nunique() == len({row for _, row in of_user})
