"""Typed parameters: declared once as dataclass fields, read from the command line, from KFP and from the docs.

At the end are those that several steps share.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, get_type_hints

from components.errors import KfrecError
from components.secrets import without_passwords

P = TypeVar("P")
Ints = tuple[int, ...]
# The default upper bound of an integer; TensorFlow and NumPy count rows and steps in int64.
LARGEST = 2**31 - 1
LARGEST_SEED = 2**63 - 1
# The syntax of a Kubernetes resource quantity.
QUANTITY = r"\d+(\.\d+)?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei|e\d+)?"


def param(
    default: Any,
    help: str,
    *,
    unit: str = "",
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
    is_quantity: bool = False,
    is_file: bool = False,
    pipeline_name: str = "",
    also: str = "",
    in_form: bool = False,
    may_be_empty: bool = False,
) -> Any:
    """Declares a parameter as a dataclass field.

    Args:
        help: one sentence, shown on the command line and in the KFP UI.
        unit: what the number counts ("samples", "seconds", "bytes"), empty for a pure number.
        choices: the accepted words, for a text parameter.
        is_quantity: whether a text parameter is a Kubernetes quantity, such as 500m or 8Gi.
        is_file: whether a text parameter is the path or URI of a file whose content the step reads; an output is
            outdated when the file changes.
        pipeline_name: name at the level of the pipeline, where two steps use the same name for different things.
        also: an alias on the command line, such as the name in a public program.
        in_form: whether it is a field of its own in the form of the KFP UI; the others of a step share a JSON object.
        may_be_empty: whether a text parameter may be empty though its default is not.
    """
    metadata = dict(
        help=help,
        unit=unit,
        at_least=at_least,
        at_most=at_most,
        choices=choices,
        is_quantity=is_quantity,
        is_file=is_file,
        pipeline_name=pipeline_name,
        also=also,
        in_form=in_form,
        may_be_empty=may_be_empty or default == "",
    )
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter as the command line, KFP and the docs see it."""

    name: str
    value_type: type
    default: Any
    help: str
    unit: str
    at_least: float | None
    at_most: float | None
    choices: tuple[str, ...]
    is_quantity: bool
    is_file: bool
    pipeline_name: str
    also: str
    in_form: bool
    may_be_empty: bool

    @property
    def largest(self) -> float | None:
        """The largest accepted value; every whole number has one."""
        return LARGEST if self.at_most is None and self.value_type in (int, tuple) else self.at_most

    @property
    def plain_type(self) -> type:
        """The type outside Python: lists of integers travel as text such as "200,80"."""
        return str if self.value_type is tuple else self.value_type

    @property
    def plain_default(self) -> Any:
        return plain(self.default)

    @property
    def description(self) -> str:
        """Help, unit, accepted values and default in one line."""
        notes = [f"in {self.unit}"] if self.unit else []
        if self.choices:
            notes.append("one of " + ", ".join(self.choices))
        notes.append(f"default {self.plain_default!r}" if self.plain_default != "" else "default empty")
        return f"{self.help} ({'; '.join(notes)})"

    def parse(self, value: Any) -> Any:
        """Returns ``value`` as this parameter's type.

        Raises:
            KfrecError: the value is not of the type or out of range.
        """
        try:
            parsed = _PARSERS[self.value_type](value)
        except (TypeError, ValueError, OverflowError, KeyError):
            wanted = {int: "a whole number", float: "a number", bool: "true or false"}.get(
                self.value_type, "whole numbers separated by commas"
            )
            raise KfrecError(f"parameter {self.name}={value!r} is not {wanted}: {self.description}") from None
        if isinstance(parsed, str) and not parsed.strip() and not self.may_be_empty:
            raise KfrecError(f"parameter {self.name} is empty: {self.description}")
        if self.is_quantity:
            check_quantity(f"parameter {self.name}", parsed)
        numbers = parsed if isinstance(parsed, tuple) else (parsed,)
        below = self.at_least is not None and any(n < self.at_least for n in numbers)
        above = self.largest is not None and any(n > self.largest for n in numbers)
        if below or above or (self.choices and parsed not in self.choices):
            bounds = [f"at least {_number(self.at_least)}"] if self.at_least is not None else []
            bounds += [f"at most {_number(self.largest)}"] if self.largest is not None else []
            bounds += ["one of " + ", ".join(self.choices)] if self.choices else []
            raise KfrecError(f"parameter {self.name}={value!r} must be {' and '.join(bounds)}")
        return parsed


def plain(value: Any) -> Any:
    """A parameter's value as JSON, YAML and KFP carry it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else value


def check_quantity(source: str, value: str) -> None:
    """Rejects text that is not a quantity.

    Raises:
        KfrecError: it is not; the message begins with ``source``.
    """
    if not re.fullmatch(QUANTITY, value):
        raise KfrecError(f"{source}={value!r} is not a Kubernetes quantity; write one such as 500m, 8 or 32Gi")


def bytes_of(quantity: str) -> float:
    """The value of a Kubernetes quantity, such as 32Gi, in bytes."""
    match = re.fullmatch(r"([\d.]+)(e\d+)?([a-zA-Z]*)", quantity)
    assert match is not None
    number, exponent, suffix = match.groups()
    powers = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
    if suffix == "m":
        return float(number) / 1000
    return float(number + (exponent or "")) * (1024 if suffix.endswith("i") else 1000) ** powers[suffix.rstrip("i")]


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


def _parse_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    return words[str(value).strip().lower()]


def _parse_int(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError(value)
    return int(value)


def _parse_float(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number


def _parse_ints(value: Any) -> Ints:
    parts = value if isinstance(value, (tuple, list)) else [part for part in str(value).split(",") if part.strip()]
    return tuple(_parse_int(part) for part in parts)


_PARSERS: dict[type, Any] = {int: _parse_int, float: _parse_float, bool: _parse_bool, str: str, tuple: _parse_ints}


def parameters_of(group: type) -> tuple[Parameter, ...]:
    """The parameters that a dataclass declares, in order."""
    return _parameters_of(group)


@cache  # not on the function itself, since mypy takes a type variable for no Hashable
def _parameters_of(group: type) -> tuple[Parameter, ...]:
    hints = get_type_hints(group)
    return tuple(
        Parameter(
            name=field.name,
            value_type=tuple if hints[field.name] == Ints else hints[field.name],
            default=field.default,
            **{**field.metadata, "pipeline_name": pipeline_name(field)},
        )
        for field in dataclasses.fields(group)
    )


def pipeline_name(field: dataclasses.Field[Any]) -> str:
    """The name of a declared parameter at the level of the pipeline."""
    return field.metadata["pipeline_name"] or field.name


def build(group: type[P], values: Mapping[str, Any]) -> P:
    """Makes the dataclass ``group`` from untyped values, checking each one, and then all of them together.

    A group whose parameters depend on each other has a method ``check()``, which raises a KfrecError that names both
    and their values.

    Raises:
        KfrecError: an unknown name, a value of the wrong type, one out of range, or values that exclude each other.
    """
    known = {parameter.name: parameter for parameter in parameters_of(group)}
    for name in values:
        if name not in known:
            raise KfrecError(unknown_parameter(name, list(known), "see --help for the list"))
    parameters = group(**{name: known[name].parse(value) for name, value in values.items()})
    for part in type(parameters).__mro__:
        if check := vars(part).get("check"):
            check(parameters)
    return parameters


@cache
def joined(*groups: type, defaults: tuple[tuple[str, Any], ...] = ()) -> type:
    """One dataclass with the parameters of all ``groups``, in their order; an instance is one of each of them.

    Args:
        defaults: name and value of parameters whose default differs from the declared one.

    Raises:
        KfrecError: two groups declare the same name, or no group declares a name of ``defaults``.
    """
    if len(groups) == 1 and not defaults:
        return groups[0]
    seen: dict[str, type] = {}
    for group in groups:
        for field in dataclasses.fields(group):
            if field.name in seen:
                raise KfrecError(
                    f"{group.__name__} and {seen[field.name].__name__} both declare the parameter {field.name}; "
                    "rename one of them"
                )
            seen[field.name] = group
    other = [_with_default(seen, name, value) for name, value in defaults]
    return dataclasses.make_dataclass("And".join(g.__name__ for g in groups), other, bases=groups[::-1], frozen=True)


def _with_default(groups: Mapping[str, type], name: str, value: Any) -> tuple[str, Any, Any]:
    """A declared field again, with another default."""
    if name not in groups:
        raise KfrecError(f"no parameter {name} is declared, so it has no default {value!r}")
    declared = next(field for field in dataclasses.fields(groups[name]) if field.name == name)
    field: Any = dataclasses.field(default=value, metadata={**declared.metadata, "may_be_empty": value == ""})
    return name, get_type_hints(groups[name])[name], field


def unknown_parameter(name: str, known: list[str], listed: str = "") -> str:
    """The error message for an undeclared parameter, with the nearest declared name.

    Args:
        listed: says where they are listed, if nothing is near; empty lists them here.
    """
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else listed or f"there are {', '.join(known)}"
    return f"unknown parameter {name}: {hint}"


def as_plain(parameters: Any) -> dict[str, Any]:
    """A parameter dataclass as a JSON-ready dictionary to be recorded: passwords are left out."""
    return without_passwords({p.name: plain(getattr(parameters, p.name)) for p in parameters_of(type(parameters))})


# Parameters that select a data set, model or task, whose parameters the step has in addition to its own.
DATASET = param("amazon_reviews", "Data set, which defines the raw files and their preprocessing")
MODEL = param("sim", "Model that is trained")
TASK = param("click", "Task that evaluates the model")
# Parameters that several steps share.
SEED = param(12345, "Random seed for the data", at_least=0, at_most=LARGEST_SEED)
EXPERIMENT = param("kfrec", "MLflow experiment", in_form=True)
RUN_ID = param(
    "", "Pipeline run whose MLflow run this step joins; empty joins MLFLOW_RUN_ID or starts a run of its own"
)
REFITTING = param(
    False,
    "Whether the step is part of a refit, which the pipeline says: everything trains, and the model is published in "
    "place of the judged one",
)
REPLAY_SHARE = param(
    0.1,
    "Where a vocabulary grows: rows of older days that train once more, as a share of the new ones",
    at_least=0,
    at_most=1,
)
EVALUATION_BATCH_SIZE = param(16_384, "Samples scored at a time", unit="samples", at_least=1)
DATA_VERSION = param(
    "",
    "Version of the data at the source, recorded with the model; a new value also invalidates KFP's cache",
    in_form=True,
)
REGISTERED_MODEL = param(
    "kfrec-ctr", "Name in the MLflow model registry; its champion must be of the same task", in_form=True
)
_PREBATCH = "0 writes one Example per sample, and reads the size from the data"
PREBATCH_TRAIN_SIZE = param(0, f"Samples in one training record; {_PREBATCH}", unit="samples", at_least=0)
PREBATCH_TEST_SIZE = param(0, f"Samples in one test or validation record; {_PREBATCH}", unit="samples", at_least=0)
# Split to the parameter with the samples in one of its records.
PREBATCH_SIZES = {"train": "prebatch_train_size", "test": "prebatch_test_size", "validation": "prebatch_test_size"}
# The source that stands for the built-in data set.
SYNTHETIC = "synthetic"
