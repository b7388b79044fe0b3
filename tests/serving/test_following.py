"""``kfrec serve NAME@champion`` under load, while the alias moves: on, to a version that does not load, and back."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from mlflow import MlflowClient

from components.served_rows.table import read_served
from pipelines.cli import main
from tests.fakes.known_scores import add_counts, make_known_model
from tests.fakes.model_server import ModelServer, serving
from tests.fakes.small_shop import NAMES, make_data
from tests.serving.counts import counts
from tests.waiting import LONGEST, wait_for

pytestmark = pytest.mark.slow
NAME = "followed-shop"
ROW = {"user": "U1", "history": ["B001"], "item": "B008"}
# Log-odds of the row by version; the third version has no model.
LOGITS = {1: 0.5, 2: -0.5}


@pytest.fixture
def registered(store: str, tmp_path: Path) -> MlflowClient:
    """The versions, of which the first one is the champion."""
    data = make_data(tmp_path / "tfrecord", dataset="amazon_reviews", rows=20)
    add_counts(data, dict.fromkeys(NAMES, 7))
    client = MlflowClient(store, store)
    run = client.create_run(client.create_experiment(NAME)).info.run_id
    client.create_registered_model(NAME)
    for version in (1, 2, 3):
        folder = make_known_model(tmp_path / str(version) / "artifacts", data, {"B008": LOGITS.get(version, 0.0)})
        if version not in LOGITS:
            shutil.rmtree(folder / "saved_model")
        client.create_model_version(NAME, folder.parent.as_uri(), run)
    client.set_registered_model_alias(NAME, "champion", "1")
    return client


def served_version(server: ModelServer) -> str:
    (info,) = (name for name in counts(server) if name.startswith("kfrec_model_info"))
    return info.partition('version="')[2].partition('"')[0]


@pytest.fixture
def load() -> Iterator[Event]:
    over = Event()
    yield over
    over.set()


def test_versions_change_under_load_and_no_request_fails(registered: MlflowClient, tmp_path: Path, load: Event) -> None:
    log = tmp_path / "served"
    words = ["--workers=2", "--watch=1", f"--log={log}"]
    with (
        serving(f"{NAME}@champion", tmp_path / "out", *words) as server,
        ThreadPoolExecutor(4) as pool,
    ):

        def ask() -> list[tuple[int, float]]:
            answers = []
            while not load.is_set():
                answer = server.post("/invocations", {"dataframe_records": [ROW]})
                answers.append((answer.status_code, round(answer.json()["predictions"][0]["logit"], 3)))
            return answers

        asking = [pool.submit(ask) for _ in range(3)]
        try:
            assert main(["promote", NAME, "--version=2", "--approved-by=Ada", "--because=better"]) == 0
            wait_for(lambda: counts(server)["kfrec_model_switches_total"] == 2)
            assert served_version(server) == "2"
            registered.set_registered_model_alias(NAME, "champion", "3")
            wait_for(lambda: counts(server)["kfrec_model_refusals_total"] == 2)
            assert served_version(server) == "2"
            assert main(["rollback", NAME, "--to=1", "--because=worse"]) == 0
            wait_for(lambda: counts(server)["kfrec_model_switches_total"] == 4)
            assert served_version(server) == "1"
        finally:
            load.set()
        answers = [answer for each in asking for answer in each.result(LONGEST)]
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(LONGEST)
    assert {status for status, _ in answers} == {200} and {logit for _, logit in answers} == set(LOGITS.values())
    out = (tmp_path / "out").read_text()
    assert f"{NAME} version 2 is served instead of {NAME} version 1" in out
    assert f"{NAME} version 3 is not served, so {NAME} version 2 stays: " in out
    rows = [row for table in read_served(str(log)) for row in table.to_pylist()]
    assert len(rows) == len(answers) and {row["variant"] for row in rows} == {"champion"}
    assert {(row["model"], row["version"], row["probability"] > 0.5) for row in rows} == {
        (NAME, "1", True), (NAME, "2", False),
    }  # fmt: skip
