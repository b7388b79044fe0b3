"""Settings files: YAML whose names and types are those of a dataclass; a mistake is one line that names the place."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePath
from typing import Annotated, Any, TypeVar, get_type_hints

import yaml
from pydantic import BeforeValidator, ConfigDict, Strict, StringConstraints, ValidationError, create_model

from components.errors import KfrecError
from components.parameters import QUANTITY, unknown_parameter

S = TypeVar("S")
_LARGEST = 1_000_000  # values of a YAML document
# Types of settings beside Python's own: a Kubernetes quantity, text or a whole number; and a list, kept as a tuple.
Quantity = Annotated[
    str, StringConstraints(pattern=f"^(?:{QUANTITY})$"), BeforeValidator(lambda v: str(v) if type(v) is int else v)
]
Several = Annotated[tuple[S, ...], Strict(False)]
# For a TypedDict: CLOSED has no keys but its own, OPEN any others as well.
CLOSED, OPEN = ConfigDict(strict=True, extra="forbid"), ConfigDict(strict=True, extra="allow")
# What is wrong with a value, by pydantic's type of error.
_PROBLEMS = {
    "string_type": "is not text (in quotes if it looks like a number); correct it",
    "int_type": "is not a whole number; correct it",
    "bool_type": "is not true or false; correct it",
    "dict_type": "is not a mapping; write name: value",
    "mapping_type": "is not a mapping; write name: value",
    "tuple_type": "is not a list; correct it",
    "list_type": "is not a list; correct it",
    "model_attributes_type": "is not a mapping; write name: value",
    "dataclass_type": "is not a mapping; write name: value",
    "float_type": "is not a number; correct it",
    "greater_than_equal": "must be at least {ge}; correct it",
    "greater_than": "must be above {gt}; correct it",
    "less_than_equal": "must be at most {le}; correct it",
    "less_than": "must be below {lt}; correct it",
    "too_short": "is empty; name at least {min_length}",
    "string_too_short": "is shorter than {min_length} character; correct it",
    "string_too_long": "is longer than {max_length} character; correct it",
    "literal_error": "must be one of {expected}; correct it",
    "string_pattern_mismatch": "is not a Kubernetes quantity; write one such as 500m, 8 or 32Gi",
}


def parse_yaml(source: str, text: str) -> dict[str, Any]:
    """The mapping in the text of a YAML file; an empty one is an empty mapping.

    Raises:
        KfrecError: the text is not YAML or holds something else; the message begins with ``source`` (the file).
    """
    try:
        body = plain_yaml(text)
    except yaml.YAMLError as error:
        raise KfrecError(f"{source}: not YAML ({' '.join(str(error).split())}); correct it") from None
    return require_mapping(source, {} if body is None else body)


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


def require_mapping(source: str, body: Any, names: Collection[str] | None = None) -> dict[str, Any]:
    """``body``, if it is a mapping whose keys are all in ``names``.

    Raises:
        KfrecError: it is not; the message begins with ``source`` (file and key).
    """
    if not isinstance(body, dict):
        raise KfrecError(f"{source}: {body!r} is not a mapping; write name: value")
    for name in body:
        if names is not None and name not in names:
            raise KfrecError(f"{source}: {unknown_parameter(str(name), list(names))}")
    return body


def checked(source: str, values: Any, kind: type) -> dict[str, Any]:
    """Settings by name, each of the type that the dataclass ``kind`` declares for it.

    Args:
        source: file and key, for messages.
        kind: a dataclass whose fields have the types of this module, or others that pydantic validates.

    Raises:
        KfrecError: an unknown name or a value of another type.
    """
    declared = get_type_hints(kind, include_extras=True)
    mapping = require_mapping(source, values, declared)
    fields: dict[str, Any] = {name: (declared[name], ...) for name in mapping}
    try:
        parsed = create_model(kind.__name__, __config__=CLOSED, **fields).model_validate(mapping)
    except ValidationError as error:
        raise KfrecError(_line(source, error.errors()[0])) from None
    return {name: getattr(parsed, name) for name in mapping}


def _line(source: str, error: Mapping[str, Any]) -> str:
    """A pydantic error, as one line."""
    keys = [f"entry {key + 1}" if isinstance(key, int) else str(key) for key in error["loc"] if key != "[key]"]
    context = {name: str(value).replace("'", "").replace(" or ", ", ") for name, value in error.get("ctx", {}).items()}
    if error["type"] == "union_tag_invalid":
        keys.append(context["discriminator"])
        return f"{': '.join([source, *keys])}: {context['tag']!r} must be one of {context['expected_tags']}; correct it"
    if error["type"] == "union_tag_not_found":
        return f"{': '.join([source, *keys])}: has no {context['discriminator']}; add it"
    if error["type"] == "missing":
        return f"{': '.join([source, *keys[:-1]])}: has no {keys[-1]}; add it"
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"{': '.join([source, *keys[:-1]])}: unknown parameter {keys[-1]}; take it out"
    problem = _PROBLEMS[error["type"]].format(**context)
    return f"{': '.join([source, *keys])}: {error['input']!r} {problem}"


def load_settings_file(path: Path, kind: type[S]) -> S:
    """The dataclass ``kind`` with the settings of the file and its additions; a missing file sets nothing.

    Raises:
        KfrecError: see ``merge``.
    """
    files = [path.with_name(name) for name in with_additions(path, (file.name for file in path.parent.glob("*")))]
    return merge({str(file): read_yaml(file) for file in files}, kind)


def with_additions(file: PurePath, present: Iterable[str]) -> list[str]:
    """The names in ``present`` of the file and its additions, in merge order.

    An addition's name has an extra part, such as mpijob.kueue.yaml beside mpijob.yaml: each part of an installation may
    add its own.
    """
    names = set(present)
    return [
        name for name in (file.name, *sorted(fnmatch.filter(names, f"{file.stem}.*{file.suffix}"))) if name in names
    ]


def merge(bodies: Mapping[str, Mapping[str, Any]], kind: type[S]) -> S:
    """The dataclass ``kind`` merged from several mappings; later ones override earlier ones, setting by setting.

    Args:
        bodies: file, for messages, to the mapping in it; the first is the base that the others add to.

    Raises:
        KfrecError: see ``checked``; or ``kind`` raises ValueError because the settings are inconsistent.
    """
    values: dict[str, Any] = {}
    for source, body in bodies.items():
        values |= checked(source, body, kind)
    try:
        return kind(**values)
    except ValueError as error:
        raise KfrecError(f"{next(iter(bodies))}: {error}") from None


def plain_yaml(text: str) -> Any:
    """The value of a YAML document from others, whose few hundred bytes of aliases may describe gigabytes.

    Raises:
        yaml.YAMLError: the text is not YAML, sets a key twice, is nested too deeply, or its aliases expand to more than
            a million values.
    """
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _values(node, {}) > _LARGEST:
            raise yaml.YAMLError(f"its aliases (*name) expand to more than {_LARGEST:,} values")
        return loader.construct_document(node)
    except RecursionError:
        raise yaml.YAMLError("nested too deeply") from None
    finally:
        loader.dispose()


def _values(node: yaml.Node, counted: dict[int, int]) -> int:
    """Values in a node, those behind aliases included; infinitely many where an alias is within its own anchor."""
    if id(node) not in counted:
        counted[id(node)] = _LARGEST + 1  # until it is known
        if isinstance(node, yaml.MappingNode):
            _require_unique(node)
        children = node.value if isinstance(node, yaml.CollectionNode) else []
        pairs = (child for entry in children for child in (entry if isinstance(entry, tuple) else (entry,)))
        counted[id(node)] = 1 + sum(_values(child, counted) for child in pairs)
    return counted[id(node)]


def _require_unique(node: yaml.MappingNode) -> None:
    """Rejects a mapping that sets a key twice, of which PyYAML would take the last value."""
    seen: set[str] = set()
    for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
        if key.value in seen:
            raise yaml.YAMLError(f"line {key.start_mark.line + 1} sets {key.value} a second time")
        seen.add(key.value)
