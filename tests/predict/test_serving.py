"""mlflow's own server, started as the InferenceService starts it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import requests

from pipelines.serving import PORT, inference_service
from tests.predict.conftest import REGISTERED, Served

pytestmark = pytest.mark.slow


@contextmanager
def started(command: list[str], port: int, log: Path) -> Iterator[str]:
    """A server that answers; it ends with the block."""
    # mlflow looks for uvicorn on the path, as in the image.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with (
        log.open("w") as out,
        subprocess.Popen(
            command, stdout=out, stderr=out, start_new_session=True, env=os.environ | {"PATH": path}
        ) as server,
    ):
        try:
            url, until = f"http://127.0.0.1:{port}", time.monotonic() + 180
            while True:
                assert server.poll() is None and time.monotonic() < until, log.read_text()[-3000:]
                try:
                    if requests.get(f"{url}/ping", timeout=2).ok:
                        break
                except requests.RequestException:
                    time.sleep(0.3)
            yield url
        finally:
            os.killpg(server.pid, 15)
            server.wait(30)


def test_the_server_of_the_manifest_gives_the_scores_of_the_evaluation(
    served: Served, store: str, tmp_path: Path
) -> None:
    (container,) = inference_service(REGISTERED, "1")["spec"]["predictor"]["containers"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [word.replace(f"--port={PORT}", f"--port={port}") for word in container["args"]]
    mlflow = [str(Path(sys.executable).with_name(container["command"][0])), *container["command"][1:]]
    with started([*mlflow, *arguments], port, tmp_path / "log") as url:
        answer = requests.post(f"{url}/invocations", json={"dataframe_records": served.rows}, timeout=60)
        assert answer.status_code == 200, answer.text
        found = answer.json()["predictions"]
        refused = requests.post(f"{url}/invocations", json={"dataframe_records": [{"user": "a"}]}, timeout=60)
    np.testing.assert_allclose([row["probability"] for row in found], served.scores, atol=1e-6)
    assert refused.status_code == 400 and "history" in refused.text
