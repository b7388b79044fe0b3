"""The signature of a SavedModel, read from its file: importing TensorFlow takes seconds."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from components.errors import KfrecError

# The required fields of TensorFlow's saved_model.proto and meta_graph.proto: name, number, and message type, or none
# for strings. All are repeated: on the wire, a map is a list of entries with key 1 and value 2, and a single message is
# a list of one.
_PACKAGE = "kfrec.saved_model"
_FIELDS = {
    "SavedModel": [("graphs", 2, "Graph")],
    "Graph": [("signatures", 5, "Signature")],
    "Signature": [("name", 1, ""), ("tensors", 2, "Tensors")],
    "Tensors": [("inputs", 1, "Tensor"), ("outputs", 2, "Tensor")],
    "Tensor": [("name", 1, "")],
}


def damaged(saved: Path, error: Exception) -> KfrecError:
    """The error of a SavedModel that cannot be read."""
    reason = " ".join(str(error).split())[:200]
    return KfrecError(f"{saved}: cannot be loaded ({reason}); train again, or restore the folder")


def read_signature(saved: Path, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The sorted input and output names of a signature; empty if the model has no such signature.

    Args:
        saved: folder of the SavedModel.
        name: of the signature.

    Raises:
        KfrecError: the model is damaged.
    """
    body = _saved_model()()
    try:
        body.ParseFromString((saved / "saved_model.pb").read_bytes())
    except message.DecodeError as error:
        raise damaged(saved, error) from error
    for signature in (signature for graph in body.graphs for signature in graph.signatures):
        if list(signature.name) == [name]:
            (tensors,) = signature.tensors
            return _names(tensors.inputs), _names(tensors.outputs)
    return (), ()


def _names(tensors: Iterable[Any]) -> tuple[str, ...]:
    return tuple(sorted(name for tensor in tensors for name in tensor.name))


@cache
def _saved_model() -> Any:
    """The message class."""
    file = descriptor_pb2.FileDescriptorProto(name="kfrec/saved_model.proto", package=_PACKAGE, syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in _FIELDS.items():
        described = file.message_type.add(name=name)
        for field, number, held in fields:
            kind = kinds.TYPE_MESSAGE if held else kinds.TYPE_STRING
            place = f".{_PACKAGE}.{held}" if held else None
            described.field.add(name=field, number=number, label=kinds.LABEL_REPEATED, type=kind, type_name=place)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.SavedModel"))
