"""The raw files: tables of any name, and the schema beside them."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from components.artifacts import Artifact
from components.datasets.definition import TABLES, RawContract, RawKind
from components.datasets.tabular.entries import ByFiles, Group
from components.datasets.tabular.schema import SPLITS, TableSchema, parse_schema
from components.errors import KfrecError
from components.feature_spec import Channel
from components.feature_spec.spec import TRAIN
from components.settings_file import parse_yaml
from components.storage import Retry, is_uri, open_store

FILENAME = "schema.yaml"
SCHEMA = RawKind("schema", r"schema\.yaml", FILENAME, "lines of schema", required=False)
CONTRACT = RawContract((TABLES, SCHEMA))


@dataclass(frozen=True)
class TableFile:
    """A table.

    Attributes:
        number: index among the tables.
        split: split by file: one of SPLITS, or empty where rows decide.
    """

    path: Path
    number: int
    split: str


def find_schema(raw: Artifact, named: str) -> tuple[str, str]:
    """The schema's location and text: the file or URI ``named``, or else the one beside the tables.

    Raises:
        KfrecError: it is missing or unreadable.
    """
    if is_uri(named):
        uri, _, name = named.rpartition("/")
        store, retry = open_store(uri), Retry(5)
        return named, _text(named, retry.call(named, lambda: b"".join(store.read(store.stat(name)))))
    path = Path(named) if named else raw.file(FILENAME)
    if not path.is_file():
        where = "parameter table_schema: no such file" if named else "missing beside the tables"
        raise KfrecError(
            f"{path}: {where}; kfrec init-schema writes a first one, or name it with the parameter table_schema"
        )
    return str(path), _text(str(path), path.read_bytes())


def lacking_channels(source: str, parameters: Any) -> tuple[str, ...]:
    """The group, if the schema is in a folder of this machine and names none; else nothing is known.

    Raises:
        KfrecError: the schema is unreadable or invalid.
    """
    path = Path(parameters.schema or Path(source, FILENAME))
    if not (parameters.schema or source) or not path.is_file():
        return ()
    schema = read_schema(str(path), _text(str(path), path.read_bytes()))
    return () if any(isinstance(treatment, Group) for treatment in schema.columns.values()) else (Channel.GROUP,)


def _text(place: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise KfrecError(f"{place}: not UTF-8 text; write it as UTF-8") from None


def read_schema(place: str, text: str) -> TableSchema:
    """The schema in the text of a YAML file.

    Raises:
        KfrecError: it is invalid; the message begins with ``place``.
    """
    return parse_schema(place, parse_yaml(place, text))


def find_tables(raw: Artifact, schema: TableSchema, place: str) -> list[TableFile]:
    """The tables that a schema reads, sorted by name.

    Raises:
        KfrecError: a pattern matches no file, a file is duplicated, or belongs to no split or to two.
    """
    paths = TABLES.found(raw)
    _require_each(raw, schema.files, paths, f"{place}: files")
    paths = [path for path in paths if _matches(path, schema.files)]
    for path in paths:
        for suffix in (".gz", ".zip"):
            if path.with_name(path.name + suffix) in paths:
                raise KfrecError(f"{path}: also exists as {path.name}{suffix}; remove one, or list files in {place}")
    if not isinstance(schema.split, ByFiles):
        return [TableFile(path, number, "") for number, path in enumerate(paths)]
    for name in SPLITS:
        _require_each(raw, getattr(schema.split, name), paths, f"{place}: split: {name}")
    tables = [
        TableFile(path, number, split)
        for number, path in enumerate(paths)
        if (split := _split_of(path, schema.split, place))
    ]
    if all(table.split != TRAIN for table in tables):
        named = " or ".join(sorted({table.split for table in tables}))
        raise KfrecError(f"{place}: split: {named} matches every table, so none is left to train on; correct it")
    return tables


def _require_each(raw: Artifact, patterns: tuple[str, ...], paths: list[Path], what: str) -> None:
    for pattern in patterns:
        if not any(_matches(path, (pattern,)) for path in paths):
            raise KfrecError(
                f"{what}: {pattern} matches no table in {raw.path}, which has "
                f"{', '.join(path.name for path in paths) or 'none'}; correct it"
            )


def _matches(path: Path, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(path.name, pattern) for pattern in patterns)


def _split_of(path: Path, split: ByFiles, place: str) -> str:
    found = [name for name in SPLITS if _matches(path, getattr(split, name))]
    if len(found) > 1:
        raise KfrecError(f"{place}: split: {path.name} matches both {found[0]} and {found[1]}; correct the patterns")
    return found[0] if found else "" if split.train else TRAIN
