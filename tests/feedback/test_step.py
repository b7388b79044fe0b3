"""Served rows and outcomes become training rows and live figures; what is true lies in the interval."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from mlflow import MlflowClient

from components.artifacts import open_artifact
from components.errors import KfrecError
from components.feedback.step import run
from components.preprocess.step import run as preprocess
from components.served_rows.table import read_served
from components.steps.catalog import STEPS, FeedbackParameters
from pipelines.cli import main
from tests.feedback.conftest import (
    BEGIN,
    NAME,
    NOW,
    Shop,
    click_rate,
    columns,
    scored,
    served_table,
    true_auc,
    write_served,
)

pytestmark = pytest.mark.usefixtures("store")
VISITS = 6000
# The window of the tests in hours, and the share of clicks that come within it.
WINDOW = 12.0
WITHIN = 1 - np.exp(-WINDOW / 4)


def asked(given: Path, came: Path, **others: object) -> FeedbackParameters:
    values = dict(model_version=f"{NAME}@champion", attribution_window=WINDOW, label_wait=6.0, experiment="shop")
    known = dict(served=str(given), outcomes=str(came), known_until=f"{NOW:%Y-%m-%d %H:%M}")
    made: FeedbackParameters = STEPS["feedback"].of(**values | known | others)
    return made


class Simulated:
    """Two days of visits: users click by ``click_rate``, some after the window, and one outcome in five comes twice."""

    def __init__(self, shop: Shop, folder: Path) -> None:
        random = np.random.default_rng(7)
        self.visits = columns(random, VISITS)
        times = [BEGIN + timedelta(seconds=float(at)) for at in np.sort(random.uniform(0, 2 * 86_400, VISITS))]
        self.table = served_table(self.visits, scored(shop.model, self.visits), times)
        self.served = write_served(folder / "served", self.table)
        self.clicked = random.random(VISITS) < click_rate(self.visits)
        delays = random.exponential(4, VISITS)
        self.within = self.clicked & (delays <= WINDOW)
        self.late = self.clicked & ~self.within
        came = np.flatnonzero(self.clicked)
        twice = random.choice(came, len(came) // 5, replace=False)
        self.twice = int(self.within[twice].sum())
        rows = np.concatenate([came, twice])
        at = [times[row] + timedelta(hours=float(delays[row])) for row in rows]
        sent = pd.DataFrame({"request_id": [f"v1-{row}" for row in rows], "time": at})
        self.outcomes = folder / "outcomes.parquet"
        sent.sample(frac=1, random_state=1).to_parquet(self.outcomes)
        self.sent = len(sent)


@pytest.fixture(scope="module")
def simulated(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    return Simulated(shop, tmp_path_factory.mktemp("simulated"))


def live_of(folder: Path) -> dict:
    return json.loads((folder / "live.json").read_text())


def test_the_true_auc_lies_in_the_live_interval_and_every_row_and_outcome_is_counted(
    shop: Shop, simulated: Simulated, store: str, tmp_path: Path
) -> None:
    told = run(asked(simulated.served, simulated.outcomes), feedback=tmp_path / "out")
    live = live_of(tmp_path / "out")
    total, counts = live["total"], live["counts"]
    assert total["live_auc_low"] < true_auc(shop.model, WITHIN) < total["live_auc_high"]
    assert total["live_auc_high"] - total["live_auc_low"] < 0.06
    assert counts["outcomes"] == simulated.sent and counts["unmatched"] == counts["early"] == counts["future"] == 0
    assert counts["duplicates"] == simulated.twice
    assert counts["attributed"] == simulated.within.sum() + simulated.twice
    assert (told["rows"], told["served"], told["matured"], told["waiting"]) == (VISITS, VISITS, VISITS, 0)
    assert total["live_positives"] == simulated.within.sum()
    assert [(day["version"], day["day"]) for day in live["days"]] == [("1", "2031-03-03"), ("1", "2031-03-04")]
    assert all(day["skew_share"] == 0 and day["unknown_share"] == 0 for day in live["days"])
    assert max(live["drift"].values()) < 0.1 and set(live["drift"]) == {"price", "age"}
    assert all(0 <= day["psi_price"] < 0.1 for day in live["days"])
    assert f"{NAME} version 1: live AUC {total['live_auc']:.4f} (95 % interval" in told["summary"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert f"Live AUC {total['live_auc']:.4f}" in page and "Versions and days" in page
    client = MlflowClient(store)
    experiment = client.get_experiment_by_name("shop")
    assert experiment is not None
    query = f"tags.`kfrec.live` = '{NAME} 2031-03-04'"
    for _ in range(2):  # a second feedback of the same day has no second run
        (of_day,) = client.search_runs([experiment.experiment_id], query)
        assert of_day.data.metrics["version_1/live_auc"] == live["days"][1]["live_auc"]
        assert of_day.info.status == "FINISHED"
        run(asked(simulated.served, simulated.outcomes), feedback=tmp_path / "out")


def test_training_rows_are_raw_files_with_the_columns_as_served(simulated: Simulated, tmp_path: Path) -> None:
    run(asked(simulated.served, simulated.outcomes), feedback=tmp_path / "out")
    made = open_artifact(tmp_path / "out")
    names = {"labelled-2031-03-03.parquet", "labelled-2031-03-04.parquet", "live.json", "report.html", "schema.yaml"}
    assert {entry.path for entry in made.files} == names
    rows = pd.concat([pd.read_parquet(path) for path in made.paths("labelled-*.parquet")], ignore_index=True)
    pd.testing.assert_frame_equal(rows[["price", "age"]], simulated.visits)
    np.testing.assert_array_equal(rows["bought"], simulated.within.astype(int))
    counted = preprocess(
        STEPS["preprocess"].of(dataset="tabular", workers=1), raw=tmp_path / "out", parquet=tmp_path / "parquet"
    )
    assert (counted["train"], counted["test"]) == (VISITS * 4 // 5, VISITS // 5)


def test_rows_that_wait_are_counted_and_not_labelled(simulated: Simulated, tmp_path: Path) -> None:
    until = BEGIN + timedelta(hours=24 + WINDOW + 6)
    told = run(
        asked(simulated.served, simulated.outcomes, known_until=f"{until:%Y-%m-%d %H:%M}"), feedback=tmp_path / "out"
    )
    of_first_day = int((simulated.table["time"].to_pandas() <= BEGIN + timedelta(hours=24)).sum())
    assert told["rows"] == told["matured"] == of_first_day
    assert [entry.path for entry in open_artifact(tmp_path / "out").files if "labelled" in entry.path] == [
        "labelled-2031-03-03.parquet"
    ]
    second = live_of(tmp_path / "out")["days"][1]
    assert second["matured"] == 0 and "live_auc" not in second and second["skew_share"] == 0


def test_scores_that_the_version_does_not_give_again_are_a_share_and_a_warning(
    shop: Shop, simulated: Simulated, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = simulated.table.slice(0, 100)
    scores = table["probability"].to_numpy().copy()
    scores[:7] += 0.01
    column = table.schema.get_field_index("probability")
    served = write_served(tmp_path / "served", table.set_column(column, "probability", pa.array(scores)))
    run(asked(served, simulated.outcomes), feedback=tmp_path / "out")
    assert live_of(tmp_path / "out")["days"][0]["skew_share"] == 0.07
    assert "version 1, 2031-03-03: 7.00% of the logged scores are not what it gives" in capsys.readouterr().out


def test_served_columns_that_have_moved_are_warned_of(
    shop: Shop, simulated: Simulated, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    visits = simulated.visits[:1000].assign(price=lambda each: each["price"] * 2)
    served = write_served(tmp_path / "served", served_table(visits, scored(shop.model, visits), [BEGIN] * 1000))
    run(asked(served, simulated.outcomes), feedback=tmp_path / "out")
    drift = live_of(tmp_path / "out")["drift"]
    assert drift["price"] > 1 and drift["age"] < 0.1
    assert "served column price: psi" in capsys.readouterr().out


def test_lists_are_measured_at_the_shown_positions(simulated: Simulated, tmp_path: Path) -> None:
    rows = [(user, rank) for user in range(20) for rank in (1, 2, 3)]
    plain = served_table(simulated.visits[:60], np.zeros(60), [BEGIN] * 60).to_pydict()
    plain |= {
        "request_id": [f"mail-{user}" for user, _ in rows], "columns": [None] * 60, "probability": [None] * 60,
        "user": [f"u{user}" for user, _ in rows], "rank": [rank for _, rank in rows],
        "item": [f"i{rank}" for _, rank in rows], "likelihood": [0.1] * 60,
    }  # fmt: skip
    served = write_served(tmp_path / "served", pa.table(plain, schema=simulated.table.schema))
    # Ten of twenty users choose the item at position 2, and one of these the first one, too.
    chosen = [(f"mail-{user}", "i2") for user in range(10)] + [("mail-0", "i1")]
    pd.DataFrame(chosen, columns=["request_id", "item"]).to_csv(tmp_path / "outcomes.csv", index=False)
    told = run(asked(served, tmp_path / "outcomes.csv"), feedback=tmp_path / "out")
    total = live_of(tmp_path / "out")["total"]
    assert total["live_hr"] == 0.5 and total["live_lists"] == 20
    # Nine lists of 1 / log2(3), and one of 1 for both of its items.
    assert total["live_ndcg"] == pytest.approx((9 / np.log2(3) + 1) / 20)
    assert total["live_ndcg_low"] < total["live_ndcg"] < total["live_ndcg_high"]
    assert told["rows"] == 0 and "live NDCG of lists 0.33" in told["summary"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"served": ""}, "parameter served is empty; give the folder or URI that kfrec serve --log writes to"),
        ({"outcomes": ""}, "parameter outcomes is empty; give a file, folder or prefix with outcomes"),
        ({"outcomes": "none.csv"}, "none.csv: no such file; check the path"),
        ({"known_until": "2031-02-20 00:00"}, f"no rows of {NAME} in the last 8 days"),
    ],
)
def test_bad_input_has_one_line(given: dict[str, object], said: str, simulated: Simulated, tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=said):
        run(asked(simulated.served, simulated.outcomes, **given), feedback=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_a_batch_prediction_logs_is_joined_by_its_rows(shop: Shop, tmp_path: Path) -> None:
    visits = columns(np.random.default_rng(4), 60)
    visits.to_csv(tmp_path / "rows.csv", index=False)
    log, out = tmp_path / "served", tmp_path / "scores.csv"
    words = [f"{NAME}@champion", f"--input={tmp_path / 'rows.csv'}", f"--output={out}", f"--log={log}"]
    assert main(["predict", *words]) == 0
    logged = pa.concat_tables(read_served(str(log)))
    (request,) = set(logged["request_id"].to_pylist())
    sent = pd.DataFrame({"request_id": [request] * 20, "row": range(0, 40, 2)})
    sent.to_csv(tmp_path / "came.csv", index=False)
    until = datetime.now(UTC) + timedelta(days=2)
    told = run(asked(log, tmp_path / "came.csv", known_until=f"{until:%Y-%m-%d %H:%M}"), feedback=tmp_path / "feedback")
    (day,) = live_of(tmp_path / "feedback")["days"]
    assert (told["rows"], day["live_positives"], day["skew_share"]) == (60, 20, 0)
    rows = pd.read_parquet(open_artifact(tmp_path / "feedback").paths("labelled-*.parquet")[0])
    np.testing.assert_array_equal(np.flatnonzero(rows["bought"]), range(0, 40, 2))
