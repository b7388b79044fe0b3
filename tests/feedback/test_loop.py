"""The whole loop on this machine: a server under load, users who click by a known law, outcomes, and the feedback."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import requests

from components.feedback.step import run
from components.steps.catalog import STEPS
from tests.fakes.model_server import serving
from tests.feedback.conftest import NAME, Shop, click_rate, columns, true_auc
from tests.waiting import LONGEST

VISITS, AT_ONCE = 3000, 8


@pytest.mark.slow
def test_the_true_auc_of_a_server_under_load_lies_in_the_live_interval(shop: Shop, store: str, tmp_path: Path) -> None:
    random = np.random.default_rng(11)
    visits = columns(random, VISITS)
    log = tmp_path / "served"
    words = ["--workers=2", f"--log={log}", f"--tracking-uri={store}"]
    with serving(f"{NAME}@champion", tmp_path / "out", *words) as server:

        def visit(number: int) -> str:
            body = {"dataframe_records": [visits.iloc[number].to_dict()]}
            answer = requests.post(f"{server.uri}/invocations", json=body, timeout=LONGEST)
            answer.raise_for_status()
            return str(answer.headers["x-request-id"])

        with ThreadPoolExecutor(AT_ONCE) as pool:
            ids = list(pool.map(visit, range(VISITS)))
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(LONGEST)
    now = datetime.now(UTC)
    clicked = np.flatnonzero(random.random(VISITS) < click_rate(visits))
    late = random.random(len(clicked)) < 0.1
    came = [now + (timedelta(hours=30) if is_late else timedelta(minutes=5)) for is_late in late]
    sent = pd.DataFrame({"request_id": [ids[row] for row in clicked], "time": came})
    never = pd.DataFrame({"request_id": ["of another shop"], "time": [now]})
    pd.concat([sent, sent[:50], never]).to_parquet(tmp_path / "came.parquet")
    until = f"{now + timedelta(days=3):%Y-%m-%d %H:%M}"
    given = {"served": str(log), "outcomes": str(tmp_path / "came.parquet"), "known_until": until}
    run(STEPS["feedback"].of(model_version=f"{NAME}@champion", experiment="shop", **given), feedback=tmp_path / "live")
    live = json.loads((tmp_path / "live" / "live.json").read_text())
    counts, total = live["counts"], live["total"]
    assert (counts["served"], counts["matured"], counts["unmatched"]) == (VISITS, VISITS, 1)
    assert counts["late"] == late.sum() + late[:50].sum() and counts["duplicates"] == (~late[:50]).sum()
    assert total["live_positives"] == (~late).sum()
    assert total["live_auc_low"] < true_auc(shop.model, 0.9) < total["live_auc_high"]
    assert all(day["skew_share"] == 0 for day in live["days"])
