from __future__ import annotations

from typing import Any

import pytest

from components.errors import KfrecError
from components.storage import Unavailable, open_store
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


def test_a_missing_bucket_is_one_clear_line(gcs_bucket: Any) -> None:
    with pytest.raises(KfrecError, match="gs://no-such-bucket/data: not there"):
        open_store("gs://no-such-bucket/data").names()


def test_an_unreachable_service_is_worth_another_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    with pytest.raises(Unavailable, match="could not connect"):
        open_store(f"gs://{BUCKET}/data").stat("a")
