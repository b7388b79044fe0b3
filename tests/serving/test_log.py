"""``kfrec serve --log``: what two processes write of what they answer, when they are stopped and when they cannot."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from components.served_rows.table import read_served
from tests.fakes.known_scores import add_counts, make_known_model
from tests.fakes.model_server import ModelServer, serving
from tests.fakes.small_shop import NAMES, make_data
from tests.serving.counts import counts
from tests.waiting import LONGEST

LOGITS = {name: place / 10 for place, name in enumerate(NAMES)}
PERSON = {"user": "U1", "history": ["B001"]}
ROW = PERSON | {"item": "B007"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    data = make_data(folder / "tfrecord", dataset="amazon_reviews", rows=20)
    add_counts(data, dict.fromkeys(NAMES, 7))
    return make_known_model(folder / "known", data, LOGITS)


def ask(server: ModelServer, body: Any, **headers: str) -> requests.Response:
    return requests.post(f"{server.uri}/invocations", json=body, headers=headers, timeout=LONGEST)


def rows(log: Path) -> list[dict[str, Any]]:
    return [row for table in read_served(str(log)) for row in table.to_pylist()]


@pytest.mark.slow
def test_a_stopped_server_has_written_each_row_that_it_answered(model: Path, tmp_path: Path) -> None:
    log = tmp_path / "served"
    with serving(str(model), tmp_path / "out", "--workers=2", f"--log={log}", "--variant=canary") as server:
        with ThreadPoolExecutor(8) as pool:
            bodies = [{"dataframe_records": [ROW | {"user": f"U{number}"}]} for number in range(40)]
            answers = list(pool.map(lambda body: ask(server, body), bodies))
        named = ask(server, {"dataframe_records": [ROW, ROW | {"item": "B059", "user": 7}]}, **{"X-Request-Id": "mine"})
        listed = ask(server, {"dataframe_records": [PERSON], "params": {"top": 2}}, **{"ce-id": "of-kserve"})
        refused = ask(server, {"dataframe_records": [PERSON]})
        assert refused.status_code == 400 and named.headers["x-request-id"] == "mine"
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(LONGEST)
    found = rows(log)
    assert len(found) == 40 + 2 + 2
    assert {answer.headers["x-request-id"] for answer in answers} == {row["request_id"] for row in found} - {
        "mine", "of-kserve",
    }  # fmt: skip
    assert {(row["model"], row["version"], row["variant"]) for row in found} == {(str(model), "", "canary")}
    first, second = (row for row in found if row["request_id"] == "mine")
    assert json.loads(first["columns"]) == ROW and json.loads(second["columns"])["item"] == "B059"
    assert (first["row"], second["row"], second["user"], second["item"]) == (0, 1, "7", "B059")
    assert [row["probability"] for row in (first, second)] == [
        row["probability"] for row in named.json()["predictions"]
    ]
    lists = [row for row in found if row["request_id"] == "of-kserve"]
    assert [(row["user"], row["rank"], row["item"], row["columns"]) for row in lists] == [
        ("U1", 1, "B059", None), ("U1", 2, "B058", None),
    ]  # fmt: skip
    assert [row["likelihood"] for row in lists] == [row["likelihood"] for row in listed.json()["predictions"]]


@pytest.mark.slow
def test_answers_do_not_need_the_store(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("KFREC_SERVED_LOG", "s3://nowhere/served")
    with serving(str(model), tmp_path / "out") as server:
        assert ask(server, {"dataframe_records": [ROW] * 3}).status_code == 200
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(LONGEST)
    out = (tmp_path / "out").read_text()
    assert "log: served rows wait in memory, at most 100,000 of them: " in out
    assert "log: 3 served rows are lost: s3://nowhere/served took none of them before the end" in out


@pytest.mark.slow
def test_the_counters_of_the_log_are_there(model: Path, tmp_path: Path) -> None:
    with serving(str(model), tmp_path / "out", f"--log={tmp_path / 'served'}") as server:
        found = counts(server)
    assert {name: found[name] for name in found if name.startswith("kfrec_log")} == {
        "kfrec_log_rows_total": 0, "kfrec_log_dropped_rows_total": 0, "kfrec_log_failures_total": 0,
    }  # fmt: skip
