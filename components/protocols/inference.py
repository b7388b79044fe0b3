"""Requests and answers of the Open Inference Protocol, version 2, which KServe's and Triton's clients speak.

Source: https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/inference_rest.md
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from components.errors import KfrecError
from components.protocols.invocations import Given, count_of
from components.scoring.served import Tensor

_DTYPES = {
    "str": "BYTES", "bool": "BOOL", "int8": "INT8", "uint8": "UINT8", "int16": "INT16", "int32": "INT32",
    "int64": "INT64", "float32": "FP32", "float64": "FP64", "double": "FP64", "float": "FP32", "string": "BYTES",
}  # fmt: skip
_FIELDS = ("id", "parameters", "inputs", "outputs")


def described(tensors: Mapping[str, Tensor]) -> list[dict[str, Any]]:
    """Tensors as a model's metadata list them; -1 is the number of rows, and any length of a list."""
    return [
        {"name": name, "datatype": _DTYPES[dtype], "shape": [-1, *shape]} for name, (dtype, shape) in tensors.items()
    ]


def given(found: Mapping[str, Any]) -> Given:
    """What a request holds.

    Tensors of text ``[rows, length]`` are lists, without the "" that fills up shorter ones.

    Args:
        found: the body.

    Raises:
        KfrecError: it is not as the protocol has it.
    """
    if unknown := sorted(set(found) - set(_FIELDS)):
        raise KfrecError(f"unknown fields: {', '.join(unknown)}; there are {', '.join(_FIELDS)}")
    inputs, parameters = found.get("inputs"), found.get("parameters") or {}
    if not isinstance(inputs, list) or not all(isinstance(each, dict) for each in inputs):
        raise KfrecError("inputs is not a list of tensors")
    if not isinstance(parameters, dict):
        raise KfrecError("parameters is not an object")
    columns = dict(_values(each) for each in inputs)
    return Given(columns, count_of(columns), parameters)


def _values(tensor: Mapping[str, Any]) -> tuple[str, list[Any]]:
    name, shape, data = (tensor.get(each) for each in ("name", "shape", "data"))
    is_shape = isinstance(shape, list) and 1 <= len(shape) <= 2 and all(type(size) is int for size in shape)
    if not isinstance(name, str) or not is_shape or not isinstance(data, list):
        raise KfrecError("a tensor of inputs has no name, data and shape [rows] or [rows, length]")
    assert isinstance(shape, list)
    # The values are flat, or nested as the shape is.
    values = [value for row in data for value in row] if data and all(isinstance(row, list) for row in data) else data
    if len(values) != math.prod(shape):
        raise KfrecError(f"input {name} has {len(values)} values, and its shape {shape} {math.prod(shape)}")
    if len(shape) == 1:
        return name, values
    rows, length = shape
    return name, [[each for each in values[row * length : (row + 1) * length] if each != ""] for row in range(rows)]


def write(table: pa.Table, model: str, version: str, found: Mapping[str, Any]) -> bytes:
    """The answer, with a tensor for each column.

    Args:
        found: body of the request; the answer has its ``id``, and its ``outputs`` alone if it names some.

    Raises:
        KfrecError: there is no such output.
    """
    asked = [each.get("name") if isinstance(each, dict) else each for each in found.get("outputs") or []]
    names = [str(name) for name in asked] or table.column_names
    if unknown := [name for name in names if name not in table.column_names]:
        raise KfrecError(f"unknown outputs: {', '.join(unknown)}; there are {', '.join(table.column_names)}")
    outputs = [_tensor(name, table[name]) for name in names]
    answer = {"model_name": model, "model_version": version, "outputs": outputs}
    return json.dumps(answer | ({"id": found["id"]} if "id" in found else {})).encode()


def _tensor(name: str, column: pa.ChunkedArray) -> dict[str, Any]:
    values, shape = column.combine_chunks(), [len(column)]
    while pa.types.is_fixed_size_list(values.type):
        shape.append(values.type.list_size)
        values = values.flatten()
    return {"name": name, "datatype": _DTYPES[str(values.type)], "shape": shape, "data": values.to_pylist()}
