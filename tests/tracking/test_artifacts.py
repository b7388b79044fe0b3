"""Artifacts of a server whose store this machine cannot reach."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from components.tracking.store import connect
from tests.fakes.handler import QuietHandler, serving

_CONTENT = b"weights"


class _Server(QuietHandler):
    """Has one artifact, and tells its clients to fetch it from the store, as mlflow's server does with a bucket."""

    asked_for: list[str]

    def do_GET(self) -> None:
        path, _ = self.asked()
        self.asked_for.append(path)
        if path.endswith("/server-info"):
            self.reply_json(200, {"multipart_downloads_enabled": True, "multipart_uploads_enabled": True})
        elif "/presigned" in path:
            self.reply_json(200, {"url": "http://kfrec-store.invalid/weights", "file_size": len(_CONTENT)})
        elif path.endswith("/runs/get"):
            info = {"run_id": "1", "experiment_id": "1", "artifact_uri": "mlflow-artifacts:/1/1/artifacts"}
            self.reply_json(200, {"run": {"info": info, "data": {}}})
        elif path.endswith("/mlflow-artifacts/artifacts"):
            self.reply_json(200, {"files": []})
        else:
            self.reply(200, _CONTENT)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    _Server.asked_for = []
    for name in ("MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD", "MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with serving(_Server) as url:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        yield _Server.asked_for


def test_an_artifact_passes_through_the_server(server: list[str], tmp_path: Path) -> None:
    place = connect().download_artifacts("1", "model/weights.txt", str(tmp_path))
    assert Path(place).read_bytes() == _CONTENT
    assert not [path for path in server if "presigned" in path]
