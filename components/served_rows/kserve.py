"""Served rows from the log of KServe's own logger with ``storage``: JSON, request and response as separate objects.

The logger writes PREFIX/NAMESPACE/SERVICE/COMPONENT[/PATH]/ID-request.json and ID-response.json, each with the fields
of its record, the body in base64. It notes no time, so that of a row is when its response was written.

Source: https://github.com/kserve/kserve/blob/master/pkg/logger/store.go and types.go there
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from components.errors import KfrecError
from components.protocols import inference, invocations
from components.served_rows.entries import ListedItems, Origin, ScoredRows
from components.storage import Retry, Store

REQUEST, RESPONSE = "-request.json", "-response.json"
_RETRY = Retry(5)
# Annotations that kfrec's manifest has, if the logger is told to note them, and the endpoints' variants.
_MODEL, _VERSION = "kfrec.io/model", "kfrec.io/version"
# Columns of users and candidates, of which a log says nothing more.
_USER, _ITEM = "user", "item"


def tables_of(store: Store, since: date | None, until: date | None) -> Iterator[pa.Table]:
    """The served rows of the requests that were answered; a request without its response is left out.

    Args:
        store: of the folder with the objects.
        since: the first day; None is the oldest.
        until: the day after the last one; None is the newest.

    Raises:
        KfrecError: an object is none of KServe's logger.
    """
    names = _RETRY.call(store.uri, store.names) or []
    responses = {name.removesuffix(RESPONSE) for name in names if name.endswith(RESPONSE)}
    for name in names:
        if name.endswith(REQUEST) and (base := name.removesuffix(REQUEST)) in responses:
            answered, modified = _records(store, base + RESPONSE)
            time = datetime.fromtimestamp(modified, UTC)
            if not (since or date.min) <= time.date() < (until or date.max):
                continue
            asked, _ = _records(store, name)
            by_id = {record["Id"]: record for record in answered}
            for record in asked:
                if record["Id"] in by_id:
                    try:
                        yield _entry(record, by_id[record["Id"]], time).table()
                    except (KfrecError, pa.ArrowException, ValueError, KeyError, TypeError) as error:
                        raise _no_record(store.url(name), error) from None


def _records(store: Store, name: str) -> tuple[list[dict[str, Any]], float]:
    """The records of an object, which has one, or a list of them, and when it was written."""
    info = _RETRY.call(store.url(name), store.stat, name)
    body = _RETRY.call(store.url(name), lambda: b"".join(store.read(info)))
    try:
        found = json.loads(body)
        records = found if isinstance(found, list) else [found]
        for record in records:
            record["Id"], record["body"] = str(record["Id"]), base64.b64decode(record["Bytes"])
    except (ValueError, KeyError, TypeError) as error:
        raise _no_record(store.url(name), error) from None
    return records, info.modified


def _no_record(shown: str, error: Exception) -> KfrecError:
    return KfrecError(f"{shown}: is no record of KServe's logger ({type(error).__name__}: {error}); move it away")


def _entry(asked: Mapping[str, Any], answered: Mapping[str, Any], time: datetime) -> ScoredRows | ListedItems:
    answer = json.loads(answered["body"])
    notes = asked.get("Annotations") or {}
    model = notes.get(_MODEL) or answer.get("model_name") or asked.get("InferenceService", "")
    version = str(notes.get(_VERSION) or answer.get("model_version") or "")
    origin = Origin(asked["Id"], time, model, version, asked.get("Endpoint") or "")
    outputs = _outputs(answer)
    if "rank" in outputs:
        user, rank, item, value = list(outputs)[:4]
        lists = pa.table({name: pa.array(outputs[name]) for name in (user, rank, item, value)})
        owners = np.cumsum(np.asarray(outputs[rank]) == 1) - 1
        return ListedItems(origin, lists, owners.astype(np.int32))
    columns = {name: pa.array(values) for name, values in _columns(asked).items()}
    user, item = (name if name in columns else "" for name in (_USER, _ITEM))
    scores = outputs.get("probability")
    return ScoredRows(origin, columns, None if scores is None else pa.array(scores, pa.float64()), user, item)


def _columns(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    kind = asked.get("ContentType") or ""
    if "json" in kind or not kind:
        found = invocations.json_object(asked["body"])
        tensors = found.get("inputs")
        if isinstance(tensors, list) and all(isinstance(each, dict) and "datatype" in each for each in tensors):
            return inference.given(found).columns
    return invocations.read(asked["body"], kind).columns


def _outputs(answer: Mapping[str, Any]) -> dict[str, list[Any]]:
    if "outputs" in answer:
        return {each["name"]: each["data"] for each in answer["outputs"]}
    rows = answer["predictions"]
    if isinstance(rows, dict):
        return dict(rows)
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
