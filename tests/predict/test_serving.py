"""The server, started as the InferenceService starts it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import requests

from pipelines.serving import PORT, inference_service
from tests.fakes.handler import free_port
from tests.fakes.mlflow_server import running
from tests.predict.conftest import REGISTERED, Served
from tests.waiting import LONGEST

pytestmark = pytest.mark.slow


def test_the_server_of_the_manifest_gives_the_scores_of_the_evaluation(
    served: Served, store: str, tmp_path: Path
) -> None:
    (container,) = inference_service(REGISTERED, "1")["spec"]["predictor"]["containers"]
    port = free_port()
    arguments = [word.replace(f"--port={PORT}", f"--port={port}") for word in container["args"]]
    command = [str(Path(sys.executable).with_name(container["command"][0])), *container["command"][1:]]
    url = f"http://127.0.0.1:{port}"
    with running([*command, *arguments], url, tmp_path / "log", os.environ):
        answer = requests.post(f"{url}/invocations", json={"dataframe_records": served.rows}, timeout=LONGEST)
        assert answer.status_code == 200, answer.text
        found = answer.json()["predictions"]
        people = [{name: row[name] for name in ("user", "history")} for row in served.rows[:4]]
        ranking = {"dataframe_records": people, "params": {"top": 3}}
        lists = requests.post(f"{url}/invocations", json=ranking, timeout=LONGEST).json()["predictions"]
        refused = requests.post(f"{url}/invocations", json={"dataframe_records": [{"user": "a"}]}, timeout=LONGEST)
    np.testing.assert_allclose([row["probability"] for row in found], served.scores, atol=1e-6)
    assert [(row["user"], row["rank"]) for row in lists] == [
        (row["user"], rank) for row in people for rank in (1, 2, 3)
    ]
    assert refused.status_code == 400 and "history" in refused.text
