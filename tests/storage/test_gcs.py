from __future__ import annotations

from typing import Any

import pytest

from components.storage import open_store
from components.storage.gcs import GcsStore
from tests.fakes.object_stores import BUCKET


def test_an_object_larger_than_a_block_is_read_in_several(gcs_bucket: Any) -> None:
    content = b"0123456789abcdef" * (9 << 16)
    gcs_bucket.blob("data/a.bin").upload_from_string(content)
    store = open_store(f"gs://{BUCKET}/data")
    blocks = list(store.read(store.stat("a.bin")))
    assert len(blocks) == 2
    assert b"".join(blocks) == content


def test_a_read_is_tied_to_the_generation_that_was_described(gcs_bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gcs_bucket.blob("data/a.bin").upload_from_string(b"content")
    store = GcsStore(f"gs://{BUCKET}/data")
    info = store.stat("a.bin")
    http = store.client._http
    asked: list[str] = []
    send = http.request

    def noting(method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        asked.append(url)
        return send(method, url, *args, **kwargs)

    monkeypatch.setattr(http, "request", noting)
    list(store.read(info))
    media = [url for url in asked if "alt=media" in url]
    assert [f"ifGenerationMatch={info.version}" in url for url in media] == [True]
