"""Tables in folders named KEY=VALUE, as Hive and Spark write them: a folder gives its table a column."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from pathlib import PurePath
from urllib.parse import unquote

_NULL = "__HIVE_DEFAULT_PARTITION__"


def is_partition(folder: str) -> bool:
    """Whether a folder is named KEY=VALUE."""
    return "=" in folder[1:]


def partition_of(path: PurePath) -> dict[str, str | None]:
    """The columns that the folders of a table give, such as ``month`` of ``month=01/part.parquet``; None is missing."""
    pairs = [folder.partition("=") for folder in _folders(path.parts)]
    return {unquote(key): None if value == _NULL else unquote(value) for key, _, value in pairs}


def name_within(path: PurePath) -> str:
    """The name of a table with the folders that give it columns, such as ``month=01/part.parquet``."""
    return "/".join((*_folders(path.parts), path.name))


def _folders(parts: Iterable[str]) -> list[str]:
    return list(takewhile(is_partition, list(parts)[-2::-1]))[::-1]
