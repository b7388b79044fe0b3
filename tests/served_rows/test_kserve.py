"""The log of KServe's own logger, read as served rows; its objects are as pkg/logger of KServe 0.16 writes them."""

from __future__ import annotations

import base64
import json
import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from components.errors import KfrecError
from components.served_rows.table import read_served
from tests.fakes.object_stores import Place

V2 = "application/json"
WRITTEN = datetime(2026, 11, 27, 10, 5, tzinfo=UTC)


def record(identity: str, kind: str, body: Any, content_type: str = V2, **notes: Any) -> bytes:
    """A LogRequest as Go's encoding/json writes it."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return json.dumps({
        "Url": {"Scheme": "s3", "Opaque": "", "User": None, "Host": "bucket", "Path": "/logs"},
        "Bytes": base64.b64encode(raw).decode(), "ContentType": content_type,
        "ReqType": f"org.kubeflow.serving.inference.{kind}", "Id": identity,
        "SourceUri": {"Scheme": "http", "Host": "localhost:9081"}, "InferenceService": "shop", "Namespace": "kfrec",
        "Component": "predictor", "Endpoint": "default", "Metadata": {}, "Annotations": None, "CertName": "",
        "TlsSkipVerify": False, **notes,
    }).encode()  # fmt: skip


def add(folder: Path, identity: str, asked: Any, answered: Any, content_type: str = V2, **notes: Any) -> None:
    for kind, body in (("request", asked), ("response", answered)):
        file = folder / f"{identity}-{kind}.json"
        file.write_bytes(record(identity, kind, body, content_type, **notes))
        os.utime(file, (WRITTEN.timestamp(), WRITTEN.timestamp()))


def rows(location: Any, *days: date) -> list[dict[str, Any]]:
    return [row for table in read_served(str(location), *days) for row in table.to_pylist()]


def test_a_request_of_mlflows_protocol_is_rows_with_their_scores(tmp_path: Path) -> None:
    first = {"user": "U1", "history": ["B1"], "item": "B7"}
    asked = {"dataframe_records": [first, {"user": "U2", "history": [], "item": "B8"}]}
    answered = {"predictions": [{"probability": 0.25, "unknown_ids": 0}, {"probability": 0.5, "unknown_ids": 1}]}
    add(tmp_path, "a", asked, answered, Annotations={"kfrec.io/model": "shop-ctr", "kfrec.io/version": "3"})
    (tmp_path / "b-request.json").write_bytes(record("b", "request", asked))  # never answered
    shared = {"request_id": "a", "time": WRITTEN, "model": "shop-ctr", "version": "3", "variant": "default",
              "rank": None, "likelihood": None}  # fmt: skip
    assert rows(tmp_path) == [
        shared | {"row": 0, "columns": '{"user": "U1", "history": ["B1"], "item": "B7"}', "probability": 0.25,
                  "user": "U1", "item": "B7"},
        shared | {"row": 1, "columns": '{"user": "U2", "history": [], "item": "B8"}', "probability": 0.5,
                  "user": "U2", "item": "B8"},
    ]  # fmt: skip
    assert rows(tmp_path, date(2026, 11, 27), date(2026, 11, 28)) and not rows(tmp_path, date(2026, 11, 28))


def test_a_request_of_the_inference_protocol_and_lists_are_read(tmp_path: Path) -> None:
    users = {"name": "user", "shape": [2], "datatype": "BYTES", "data": ["U1", "U2"]}
    items = {"name": "item", "shape": [2], "datatype": "BYTES", "data": ["B7", "B8"]}
    scores = {"name": "probability", "shape": [2], "datatype": "FP32", "data": [0.25, 0.5]}
    add(
        tmp_path, "a", {"inputs": [users, items]}, {"model_name": "shop-ctr", "model_version": "4", "outputs": [scores]}
    )
    listed = [{"user": "U1", "rank": rank, "item": item, "likelihood": 0.1, "flag": ""}
              for rank, item in ((1, "B7"), (2, "B8"))]  # fmt: skip
    add(tmp_path, "b", {"dataframe_records": [{"user": "U1"}], "params": {"top": 2}}, {"predictions": listed})
    add(tmp_path, "c", b"user,item\nU3,B9\n", {"predictions": [{"probability": 0.75}]}, "text/csv")
    found = rows(tmp_path)
    assert [(row["request_id"], row["user"], row["item"], row["probability"], row["rank"]) for row in found] == [
        ("a", "U1", "B7", 0.25, None), ("a", "U2", "B8", 0.5, None),
        ("b", "U1", "B7", None, 1), ("b", "U1", "B8", None, 2), ("c", "U3", "B9", 0.75, None),
    ]  # fmt: skip
    assert [row["version"] for row in found] == ["4", "4", "", "", ""] and found[2]["model"] == "shop"


def test_a_batch_of_records_in_object_storage_is_read(prefix: Place) -> None:
    asked, answered = {"dataframe_records": [{"user": "U1"}]}, {"predictions": [{"probability": 0.5}]}
    for kind, body in (("request", asked), ("response", answered)):
        batch = [json.loads(record(identity, kind, body)) for identity in ("x", "y")]
        prefix.put(f"y-{kind}.json", json.dumps(batch).encode())
    found = rows(prefix.uri)
    assert [row["request_id"] for row in found] == ["x", "y"] and found[0]["time"].year >= 2026


@pytest.mark.parametrize("body", [b"{", b"[]x", b'{"Id": "a"}', b'"a"'])
def test_an_object_of_something_else_is_named(body: bytes, tmp_path: Path) -> None:
    (tmp_path / "a-request.json").write_bytes(record("a", "request", {}))
    (tmp_path / "a-response.json").write_bytes(body)
    with pytest.raises(KfrecError, match=r"a-response\.json: is no record of KServe's logger .*; move it away"):
        rows(tmp_path)


def test_a_body_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    add(tmp_path, "a", b"no JSON", {"predictions": [{"probability": 0.5}]})
    with pytest.raises(KfrecError, match=r"a-request\.json: is no record of KServe's logger .*not JSON"):
        rows(tmp_path)
