"""Checks a definition of a model, a data set or a task when it is loaded, before a step meets what is wrong in it."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, get_type_hints

from components.errors import KfrecError
from components.parameters import Ints, parameters_of

_EXAMPLE = 'param(8, "Width of an embedding", unit="floats", at_least=1)'
_OR_NONE = " | None"
_KINDS = (int, float, bool, str, Ints)


def require_valid(name: str, value: Any, definition: str) -> None:
    """Checks a definition.

    Args:
        name: of its entry point.
        value: what the entry point names.
        definition: ``module:class`` that it must be of.

    Raises:
        KfrecError: it is of another class, or an attribute is not as its class describes it; the message names the
            attribute and the remedy.
    """
    module, _, kind = definition.partition(":")
    expected = getattr(import_module(module), kind)
    if not isinstance(value, expected):
        raise KfrecError(f"it is {_described(value)}, not a {kind}; name a {kind} in the entry point")
    for field in dataclasses.fields(expected):
        if fault := _fault(str(field.type), getattr(value, field.name), module):
            raise KfrecError(f"{kind}.{field.name} {fault}")
    if value.name != name:
        raise KfrecError(f"{kind}.name is {value.name!r}, and its entry point {name!r}; give both the same name")
    for column in getattr(value, "kept", ()):
        if column.index < 0:
            raise KfrecError(
                f"{kind}.kept: column {column.name} has index={column.index}; count the features of the channel "
                f"{column.channel} from 0"
            )


def _fault(declared: str, value: Any, module: str) -> str:
    """What is wrong with an attribute, and the remedy; empty if nothing.

    Args:
        declared: the annotation of the attribute.
        value: of the attribute.
        module: of the annotation.
    """
    if declared.endswith(_OR_NONE):
        if value is None:
            return ""
        declared = declared.removesuffix(_OR_NONE)
    outer, _, inner = declared.partition("[")
    if outer == "str":
        return "" if isinstance(value, str) else f"is {_described(value)}; make it text"
    if outer == "Mapping":
        return "" if isinstance(value, Mapping) else f"is {_described(value)}; make it a mapping of names to values"
    if outer == "Callable":
        return _fault_of_function(declared, value)
    if outer == "type":
        return next(_faults_of_parameters(value), "")
    named = inner.partition(",")[0] if outer == "tuple" else outer
    kind = getattr(builtins, named, None) or getattr(sys.modules[module], named)
    if outer != "tuple":
        return "" if isinstance(value, kind) else f"is {_described(value)}; make it a {named}"
    if isinstance(value, tuple) and all(isinstance(each, kind) for each in value):
        return "is empty; name the primary metric first" if named == "Metric" and not value else ""
    return f"is {_described(value)}; make it a tuple of {named}"


def _fault_of_function(declared: str, value: Any) -> str:
    if not callable(value):
        return f"is {_described(value)}; make it a function"
    signature = ast.parse(declared, mode="eval").body
    assert isinstance(signature, ast.Subscript) and isinstance(signature.slice, ast.Tuple)
    arguments = signature.slice.elts[0]
    if not isinstance(arguments, ast.List):
        return ""
    try:
        inspect.signature(value).bind(*arguments.elts)
    except TypeError:
        takes = ", ".join(map(ast.unparse, arguments.elts)) or "nothing"
        return f"is called with {len(arguments.elts)} arguments ({takes}), which {_name_of(value)} does not take"
    except ValueError:  # a class or built-in function without a signature
        return ""
    return ""


def _faults_of_parameters(group: Any) -> Iterator[str]:
    """What is wrong with a dataclass of parameters."""
    if not (isinstance(group, type) and dataclasses.is_dataclass(group)):
        yield f"is {_described(group)}; make it a frozen dataclass of parameters"
        return
    name = group.__name__
    if not group.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        yield f"is {name}, a dataclass that is not frozen; declare it with @dataclass(frozen=True)"
    for field in dataclasses.fields(group):
        if "pipeline_name" not in field.metadata:
            yield f"has {name}.{field.name}, which is not declared with param(); write {field.name}: int = {_EXAMPLE}"
            return
    try:
        hints = get_type_hints(group)
    except (NameError, TypeError) as error:
        yield f"has {name} with an annotation that cannot be resolved ({error}); import its types where {name} is"
        return
    for field in dataclasses.fields(group):
        if hints[field.name] not in _KINDS:
            yield f"has {name}.{field.name} of {hints[field.name]}; make it int, float, bool, str or Ints"
            return
    for parameter in parameters_of(group):
        try:
            parameter.parse(parameter.default)
        except KfrecError as error:
            yield f"has {name}.{parameter.name} with a wrong default: {error}"


def _described(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"{value!r}" if isinstance(value, (str, int, float, type(None))) else f"a {type(value).__name__}"


def _name_of(value: Callable[..., Any]) -> str:
    return getattr(value, "__qualname__", type(value).__name__)
