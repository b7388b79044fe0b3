"""``kfrec init-schema``: a first schema of a table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from components import registry
from components.errors import KfrecError
from components.workflows.partitions import is_partition

SUMMARY = "write a first schema of a table, to be corrected"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a CSV or parquet file")
    parser.add_argument("--label", default="", metavar="COLUMN", help="column to predict (default: guessed)")
    parser.add_argument(
        "--output", metavar="FILE", help="schema to write (default schema.yaml beside the table; - is the terminal)"
    )
    parser.add_argument("--dataset", default="", metavar="NAME", help="data set (default: the first that has schemas)")


def execute(options: argparse.Namespace) -> int:
    path = Path(options.file)
    if path.is_dir():
        raise KfrecError(f"{path}: is a folder; name one of the tables in it")
    if not path.is_file():
        raise KfrecError(f"{options.file or 'FILE'}: no such file; check the path")
    target = Path(options.output) if options.output else _folder_of(path) / "schema.yaml"
    if options.output != "-" and target.exists():
        raise KfrecError(f"{target}: exists and is not overwritten; name another file with --output")
    name, schema = _with_schemas(options.dataset)
    text = schema(path, options.label)
    if options.output == "-":
        sys.stdout.write(text)
        return 0
    target.write_text(text)
    models = [each for each in registry.names(registry.MODELS) if registry.model(each).dataset == name]
    own = f"--model {models[0]}" if models else f"--model NAME --dataset {name}"
    print(f"{target}: read and correct it, then kfrec run {own} --source {_folder_of(path.absolute())}")
    return 0


def _folder_of(path: Path) -> Path:
    """The folder of a table, outside those named KEY=VALUE that give it columns."""
    return next(folder for folder in path.parents if not is_partition(folder.name))


def _with_schemas(named: str) -> tuple[str, Callable[[Path, str], str]]:
    """The data set ``named``, or else the first one with schemas, and what writes one.

    Raises:
        KfrecError: it has none.
    """
    for name in [named] if named else registry.names(registry.DATASETS):
        schema = registry.dataset(name).first_schema
        if schema is not None:
            return name, schema
    raise KfrecError(f"data set {named or 'of any name'}: has no schemas; name another one with --dataset")
