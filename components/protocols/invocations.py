"""Requests and answers of MLflow's protocol, the endpoint ``/invocations``.

Source: https://mlflow.org/docs/latest/genai/serving/custom-apps/ and mlflow.pyfunc.scoring_server
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from components.errors import KfrecError
from components.storage.packed import parquet_batches

JSON, CSV, PARQUET = "application/json", "text/csv", "application/vnd.apache.parquet"
_RECORDS, _SPLIT, _INPUTS, _INSTANCES = _FORMATS = ("dataframe_records", "dataframe_split", "inputs", "instances")
_PARAMETERS = "params"
_ROWS = 1 << 14


class Given(NamedTuple):
    """What a request holds, as yet unchecked.

    Attributes:
        columns: name to values, ``[rows]`` each.
    """

    columns: Mapping[str, Any]
    rows: int
    parameters: Mapping[str, Any]


class OtherType(KfrecError):
    """A body of a type that no reader takes."""


def read(body: bytes, content_type: str) -> Given:
    """Reads a request.

    Args:
        content_type: the header of that name; empty is JSON.

    Raises:
        OtherType: it is none of JSON, CSV and PARQUET.
        KfrecError: the body is not of its type, or not as MLflow's protocol has it.
    """
    kind = content_type.partition(";")[0].strip().lower() or JSON
    if kind == JSON:
        return _of_json(json_object(body))
    if kind not in (CSV, PARQUET):
        raise OtherType(f"Content-Type {kind} is none of {JSON}, {CSV} and {PARQUET}; say what the body is")
    try:
        table = _parquet(body) if kind == PARQUET else _csv(body)
    except pa.ArrowException as error:
        raise KfrecError(f"the body is no {kind} ({' '.join(str(error).split())})") from None
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    return Given(columns, len(table), {})


def _parquet(body: bytes) -> pa.Table:
    batches = parquet_batches(body, _ROWS, "the body")
    return pa.Table.from_batches(batches, pq.read_schema(pa.BufferReader(body)).remove_metadata())


def _csv(body: bytes) -> pa.Table:
    """All columns as text: what is a number is the model's to say."""
    with pyarrow.csv.open_csv(io.BytesIO(body[: body.find(b"\n") + 1] or body)) as header:
        names = header.schema.names
    kinds = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
    return pyarrow.csv.read_csv(io.BytesIO(body), convert_options=kinds)


def json_object(body: bytes) -> dict[str, Any]:
    """The object that a body holds.

    Raises:
        KfrecError: it holds none.
    """
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise KfrecError(f"the body is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise KfrecError("the body is JSON, but not an object")
    return found


def _of_json(found: Mapping[str, Any]) -> Given:
    given = [name for name in _FORMATS if name in found]
    if len(given) != 1:
        raise KfrecError(f"the body has {' and '.join(given) or 'no rows'}; give one of {', '.join(_FORMATS)}")
    if unknown := sorted(set(found) - {*given, _PARAMETERS}):
        raise KfrecError(f"unknown fields: {', '.join(unknown)}; beside {given[0]} there is {_PARAMETERS}")
    parameters = found.get(_PARAMETERS) or {}
    if not isinstance(parameters, dict):
        raise KfrecError(f"{_PARAMETERS} is not an object")
    (form,) = given
    rows = found[form]
    columns = _of_split(rows) if form == _SPLIT else _of_rows(form, rows)
    return Given(columns, count_of(columns), parameters)


def _of_split(split: Any) -> Mapping[str, Sequence[Any]]:
    names, data = (split.get(name) if isinstance(split, dict) else None for name in ("columns", "data"))
    if not isinstance(names, list) or not isinstance(data, list):
        raise KfrecError(f"{_SPLIT} has no lists columns and data; see pandas.DataFrame.to_dict")
    if wrong := [place for place, row in enumerate(data) if not isinstance(row, list) or len(row) != len(names)]:
        raise KfrecError(f"{_SPLIT}: row {wrong[0]} is not a list of {len(names)} values, one for each column")
    return {str(name): [row[place] for row in data] for place, name in enumerate(names)}


def _of_rows(form: str, rows: Any) -> Mapping[str, Sequence[Any]]:
    if form == _INPUTS and isinstance(rows, dict):
        if wrong := [name for name, values in rows.items() if not isinstance(values, list)]:
            raise KfrecError(f"{_INPUTS}: column {wrong[0]} is not a list with a value for each row")
        return rows
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise KfrecError(f"{form} is not a list of rows, which are objects with the columns' names")
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def count_of(columns: Mapping[str, Sequence[Any]]) -> int:
    """The number of rows.

    Raises:
        KfrecError: columns have different ones.
    """
    counts = {name: len(values) for name, values in columns.items()}
    if len(set(counts.values())) > 1:
        raise KfrecError(f"columns have different numbers of rows: {counts}")
    return next(iter(counts.values()), 0)


def write(table: pa.Table, by_column: bool = False) -> bytes:
    """The answer: a list of rows, or the columns."""
    return json.dumps({"predictions": table.to_pydict() if by_column else table.to_pylist()}).encode()


def write_error(status: int, message: str) -> bytes:
    """The answer to a request that failed."""
    code = "INTERNAL_ERROR" if status >= 500 else "BAD_REQUEST"
    return json.dumps({"error_code": code, "message": message}).encode()
