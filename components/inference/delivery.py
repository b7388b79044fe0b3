"""Lists into a table of a database, by a SQLAlchemy URL, in one transaction.

The lists of a model replace those of its last delivery: rows of the model are deleted and the new ones inserted before
the one commit, so a reader sees all of one delivery or all of the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from components.errors import KfrecError
from components.secrets import without_password

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table

# The columns of the table, in the order of the columns of a file of lists.
COLUMNS = ("user_id", "rank", "item_id", "score", "flag", "model", "version")
_SCHEME = "://"
# Module to package of database drivers with differing names.
_PACKAGES = {"psycopg2": "psycopg2-binary", "MySQLdb": "mysqlclient"}
_LINE = 200


def is_database(output: str) -> bool:
    """Whether an output is a table of a database rather than a file."""
    return _SCHEME in output


@contextmanager
def delivering(url: str, table: str, model: str) -> Iterator[TableWriter]:
    """A writer of a model's lists; commits them if the block succeeds, and else leaves the table as it was.

    Args:
        url: of the database, as SQLAlchemy takes it.
        table: its name; made if the database has none.
        model: name of the model whose lists are replaced.

    Raises:
        KfrecError: the database cannot be used, its driver is missing, or the table has other columns.
    """
    from sqlalchemy.exc import SQLAlchemyError

    shown = without_password(url)
    try:
        engine = _engine(url, shown)
        try:
            with engine.begin() as connection:
                lists = _table(connection, table, shown)
                connection.execute(lists.delete().where(lists.c.model == model))
                yield TableWriter(connection, lists)
        finally:
            engine.dispose()
    except SQLAlchemyError as error:
        said = without_password(" ".join(str(getattr(error, "orig", None) or error).split())[:_LINE])
        raise KfrecError(
            f"--output {shown}: the lists are not delivered ({said}), and the table is as it was; correct the URL or "
            "the database and run again"
        ) from None


class TableWriter:
    """Inserts batches of lists in an open transaction; see ``components.inference.formats.RowsWriter``."""

    def __init__(self, connection: Connection, table: Table) -> None:
        self._connection, self._table = connection, table

    def write(self, batch: pa.RecordBatch) -> None:
        """Inserts the rows of a batch, whose columns are those of a file of lists."""
        if len(batch):
            self._connection.execute(self._table.insert(), batch.rename_columns(list(COLUMNS)).to_pylist())


def _engine(url: str, shown: str) -> Engine:
    try:
        from sqlalchemy import create_engine

        return create_engine(url)
    except ModuleNotFoundError as error:
        package = _PACKAGES.get(error.name or "", error.name)
        raise KfrecError(f"--output {shown} needs the package {package}, which is not installed; install it") from None


def _table(connection: Connection, name: str, shown: str) -> Table:
    """The table, made if there is none.

    Raises:
        KfrecError: it lacks a column.
    """
    from sqlalchemy import Column, Float, Integer, MetaData, String, Table, inspect

    # Lengths by which MySQL can index the key.
    kinds: tuple[Any, ...] = (String(255), Integer(), String(255), Float(53), String(16), String(255), String(64))
    key = {"model", "user_id", "rank"}
    columns: list[Column[Any]] = [
        Column(column, kind, primary_key=column in key, nullable=False, autoincrement=False)
        for column, kind in zip(COLUMNS, kinds, strict=True)
    ]
    table = Table(name, MetaData(), *columns)
    inspector = inspect(connection)
    if inspector.has_table(name):
        there = {column["name"] for column in inspector.get_columns(name)}
        if lacking := [column for column in COLUMNS if column not in there]:
            raise KfrecError(
                f"--output {shown}: the table {name} has no column {lacking[0]}; name another one with --table"
            )
    else:
        table.create(connection)
    return table
