"""``kfrec ui``: whoever has its link sees the runs, and nothing of the working directory runs in it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from starlette.responses import PlainTextResponse
from starlette.types import Message, Scope

from components.tracking.page import OfOneUser
from pipelines.cli.options import free_port
from tests.waiting import wait_for

_REGISTERED = "/api/2.0/mlflow/registered-models/create"


@pytest.fixture
def page(empty_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The link that the command prints, started in a folder with modules of another user."""
    shutil.copy(empty_database, tmp_path)
    for name in ("yaml", "mlflow", "uvicorn", "starlette"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    port = free_port()
    command = [str(Path(sys.executable).with_name("kfrec")), "ui", "--workdir", ".", "--port", str(port)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True) as ui:
        assert ui.stdout is not None
        yield ui.stdout.readline().split()[0]
        os.killpg(ui.pid, signal.SIGTERM)


@pytest.mark.slow
def test_the_runs_are_shown_to_whoever_has_the_link(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start, _, token = page.partition("/?token=")

    def answers() -> bool:
        try:
            return requests.get(start, timeout=60).status_code > 0
        except requests.ConnectionError:
            return False

    wait_for(answers)
    with requests.Session() as browser:
        assert browser.get(start, timeout=60).status_code == 401
        assert browser.post(start + _REGISTERED, json={"name": "theirs"}, timeout=60).status_code == 401
        assert browser.get(f"{start}/?token=wrong", timeout=60).status_code == 401
        opened = browser.get(page, timeout=60)
        assert (opened.status_code, opened.url) == (200, f"{start}/")
        assert browser.post(start + _REGISTERED, json={"name": "mine"}, timeout=60).status_code == 200
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", token)
    assert [each.name for each in MlflowClient(start).search_registered_models()] == ["mine"]
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "wrong")
    with pytest.raises(MlflowException, match="open the link that kfrec ui has printed"):
        MlflowClient(start).search_registered_models()
    assert not (tmp_path / "ran").exists()


def _opened(port: int, query: str = "", cookie: str = "") -> dict[str, Any]:
    """The status and the headers of a page at a port, whose token is the port."""
    answer: dict[str, Any] = {}

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = {name.decode(): value.decode() for name, value in message["headers"]}
            answer.update(headers, status=message["status"])

    scope: Scope = {"type": "http", "method": "GET", "path": "/", "server": ("localhost", port)}
    scope.update(query_string=query.encode(), headers=[(b"cookie", cookie.encode())])
    asyncio.run(OfOneUser(PlainTextResponse("runs"), str(port))(scope, receive, send))
    return answer


def test_a_browser_that_follows_a_link_of_another_page_sees_the_runs() -> None:
    """It sends a "strict" cookie only to the links of the page itself."""
    assert "SameSite=lax" in _opened(5000, "token=5000")["set-cookie"]


def test_a_browser_sees_the_pages_of_two_ports() -> None:
    """It has one set of cookies for all ports of a host."""
    given = [_opened(port, f"token={port}")["set-cookie"].partition(";")[0] for port in (5000, 5001)]
    kept = dict(cookie.split("=") for cookie in given)
    cookies = "; ".join(f"{name}={value}" for name, value in kept.items())
    assert [_opened(port, cookie=cookies)["status"] for port in (5000, 5001)] == [200, 200]
    assert _opened(5000, cookie="kfrec-ui-5000=5001")["status"] == 401
