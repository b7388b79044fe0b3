"""Settings files: YAML whose names and types are those of a dataclass; a mistake is one line that names the place."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any, TypeVar

import yaml

from components.errors import KfrecError
from components.steps.parameter import check_quantity, unknown_parameter

S = TypeVar("S")
_TOLD = {bool: "true or false", int: "a whole number", str: "text (in quotes if it looks like a number)",
         dict: "a mapping", tuple: "a list"}  # fmt: skip


def setting(
    default: Any,
    *,
    is_quantity: bool = False,
    at_least: int | None = None,
    one_of: tuple[Any, ...] = (),
    keys: tuple[str, ...] = (),
    has: tuple[str, ...] = (),
    names: tuple[str, ...] = (),
) -> Any:
    """Declares a setting as a dataclass field with further checks by :func:`checked`.

    Args:
        default: value where the file says nothing; its type is that of the setting.
        is_quantity: whether text, or each value of a mapping, is a Kubernetes quantity.
        at_least: smallest accepted number.
        one_of: the accepted values.
        keys: that each mapping in a list may have.
        has: keys that each mapping in a list must have.
        names: that a mapping may have.
    """
    metadata = dict(is_quantity=is_quantity, at_least=at_least, one_of=one_of, keys=keys, has=has, names=names)
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def parse_yaml(place: str, text: str) -> dict[str, Any]:
    """The mapping in the text of a YAML file; an empty one is an empty mapping.

    Raises:
        KfrecError: the text is not YAML or holds something else; ``place`` (the file) begins the line.
    """
    try:
        body = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise KfrecError(f"{place}: not YAML ({' '.join(str(error).split())}); correct it") from None
    return require_mapping(place, {} if body is None else body)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; an empty file is an empty mapping.

    Raises:
        KfrecError: the file cannot be read, is not YAML or holds something else.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise KfrecError(f"{path}: cannot be read ({reason}); give an existing YAML file") from None
    return parse_yaml(f"{path}", text)


def require_mapping(place: str, body: Any, names: Collection[str] | None = None) -> dict[str, Any]:
    """``body`` if it is a mapping that has no other keys than ``names``.

    Raises:
        KfrecError: it is not, or it does; ``place`` (file and key) begins the line.
    """
    if not isinstance(body, dict):
        raise KfrecError(f"{place}: {body!r} is not a mapping; write name: value")
    for name in body:
        if names is not None and name not in names:
            raise KfrecError(f"{place}: {unknown_parameter(str(name), list(names))}")
    return body


def checked(place: str, values: Any, kind: type) -> dict[str, Any]:
    """Settings by name, each of the type that the dataclass ``kind`` has for it by its default.

    Args:
        place: file and key, for messages.
        values: what YAML gave.
        kind: a dataclass whose fields all have defaults: text, whole numbers, booleans, mappings or tuples.

    Raises:
        KfrecError: an unknown name or a value of another type.
    """
    plain = kind()
    declared = {field.name: field for field in dataclasses.fields(kind)}
    defaults = {name: getattr(plain, name) for name in declared}
    result = {}
    for name, value in require_mapping(place, values, defaults).items():
        wanted: type = dict if isinstance(defaults[name], Mapping) else type(defaults[name])
        given = tuple(value) if wanted is tuple and isinstance(value, list) else value
        if type(given) is not wanted:
            raise KfrecError(f"{place}: {name}: {value!r} is not {_TOLD[wanted]}; correct it")
        _check_closely(f"{place}: {name}", given, declared[name].metadata)
        result[name] = given
    return result


def _check_closely(place: str, value: Any, declared: Mapping[str, Any]) -> None:
    if declared.get("is_quantity"):
        for name, quantity in value.items() if isinstance(value, Mapping) else (("", value),):
            check_quantity(f"{place}: {name}" if name else place, str(quantity))
    if (least := declared.get("at_least")) is not None and value < least:
        raise KfrecError(f"{place}: {value} must be at least {least}; correct it")
    if (accepted := declared.get("one_of")) and value not in accepted:
        raise KfrecError(f"{place}: {value!r} must be one of {', '.join(map(str, accepted))}; correct it")
    if names := declared.get("names"):
        require_mapping(place, value, names)
    keys, has = declared.get("keys"), declared.get("has")
    for number, entry in enumerate(value, 1) if keys or has else ():
        require_mapping(f"{place}: entry {number}", entry, keys or None)
        for name in has or ():
            if name not in entry:
                raise KfrecError(f"{place}: entry {number}: has no {name}; add it")


def load_settings_file(path: Path, kind: type[S]) -> S:
    """The dataclass ``kind`` with the settings of the file and its additions; a missing file sets nothing.

    Raises:
        KfrecError: see :func:`merge`.
    """
    files = [path.with_name(name) for name in with_additions(path, (file.name for file in path.parent.glob("*")))]
    return merge({str(file): read_yaml(file) for file in files}, kind)


def with_additions(file: PurePath, present: Iterable[str]) -> list[str]:
    """Those of the given names that belong to the file or its additions, in the order of merging.

    An addition's name is longer by a part, such as mpijob.kueue.yaml beside mpijob.yaml: several parts of an
    installation may each add theirs.
    """
    names = set(present)
    return [
        name for name in (file.name, *sorted(fnmatch.filter(names, f"{file.stem}.*{file.suffix}"))) if name in names
    ]


def merge(bodies: Mapping[str, Mapping[str, Any]], kind: type[S]) -> S:
    """The dataclass ``kind`` merged from several mappings; later ones override earlier ones, setting by setting.

    Args:
        bodies: place, for messages, to the mapping in it; the first is the file that the others add to.
        kind: see :func:`checked`.

    Raises:
        KfrecError: see :func:`checked`; or the settings do not go together, for which ``kind`` raises ValueError.
    """
    values: dict[str, Any] = {}
    for place, body in bodies.items():
        values |= checked(place, body, kind)
    try:
        return kind(**values)
    except ValueError as error:
        raise KfrecError(f"{next(iter(bodies))}: {error}") from None
