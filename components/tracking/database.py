"""MLflow's SQLite database: created in a temporary file and renamed, so that a kill never leaves a partial one.

mlflow itself runs its 68 migrations in place, without a lock and outside a transaction.
"""

from __future__ import annotations

import fcntl
import importlib.util
import logging
import os
import re
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from components.errors import KfrecError, explain_os_error

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

_MAGIC = b"SQLite format 3\0"
_COMPANIONS = ("-journal", "-wal", "-shm")
_UNFINISHED = "_alembic_tmp_"
_BUSY_SECONDS = 20
_FAULTS_OF_THE_DISK = ("disk is full", "disk I/O error")
# Tables of every MLflow version; they identify an older database as MLflow's.
_SINCE_EVER = {"experiments", "runs"}
# mlflow also logs the traceback of every database error that it raises.
_CHATTY = {"mlflow": logging.ERROR, "alembic": logging.ERROR, "mlflow.store.db.utils": logging.CRITICAL}
_ELSEWHERE = "set MLFLOW_TRACKING_URI to another file, or choose another workdir"


class _State(Enum):
    MISSING = "missing"
    READY = "ready"
    OLDER = "older"
    NEWER = "newer"
    BROKEN = "broken"
    FOREIGN = "foreign"


def prepare_database(database: Path) -> None:
    """Makes ``database`` a complete database of the installed MLflow.

    A ready database costs a few milliseconds and no import of mlflow. A database of an earlier MLflow is upgraded; a
    corrupt one is renamed to ``<name>.broken-<time>``, with a line on stderr. Concurrent processes take turns.

    Args:
        database: absolute path of the file.

    Raises:
        KfrecError: a newer MLflow or another program wrote it, it is in use, or its folder cannot be written.
    """
    try:
        if _is_ready(database):
            return
        database.parent.mkdir(parents=True, exist_ok=True)
        with _locked(database):
            _make_ready(database)
    except OSError as error:
        unusable = KfrecError(
            f"{error.filename or database}: MLflow's database cannot be kept here ({error.strerror}); {_ELSEWHERE}"
        )
        raise explain_os_error(error, database) or unusable from error
    except sqlite3.Error as error:
        raise KfrecError(f"{database}: cannot be opened ({error}); {_ELSEWHERE}") from error


def quieten() -> None:
    """Limits mlflow's log to errors that are not reported otherwise."""
    for chatty, level in _CHATTY.items():
        logging.getLogger(chatty).setLevel(level)


def _is_ready(database: Path) -> bool:
    """Whether the database has the installed MLflow's schema.

    Raises:
        KfrecError: this MLflow must not change the database.
    """
    state, why = _look(database)
    if state is _State.FOREIGN:
        raise KfrecError(f"{database}: {why}; {_ELSEWHERE}")
    if state is _State.NEWER:
        raise KfrecError(
            f"{database}: written by a newer MLflow than {version('mlflow')} ({why}); install that one, or {_ELSEWHERE}"
        )
    return state is _State.READY


def _make_ready(database: Path) -> None:
    if _is_ready(database):  # another process prepared it before this one got the lock
        return
    state, why = _look(database)
    if state is not _State.MISSING and (user := _opened_by(database)):
        raise KfrecError(f"{database}: {why}, and process {user} has it open; wait for it or stop it, then run again")
    if state is _State.OLDER:
        try:
            _upgrade(database)
            return
        except _MigrationFailed as error:
            why = str(error)
    if state is not _State.MISSING and (others := _tables_of_others(database)):
        raise KfrecError(f"{database}: {why}, and it holds tables of another program ({others}); {_ELSEWHERE}")
    _set_aside(database, why)
    _create(database)


def _look(database: Path) -> tuple[_State, str]:
    """The state of the file, and its defect."""
    try:
        with database.open("rb") as file:
            head = file.read(len(_MAGIC))
    except FileNotFoundError:
        return _State.MISSING, ""
    if not head:
        return _State.BROKEN, "is empty"
    if not _MAGIC.startswith(head):
        return _State.FOREIGN, "is not an SQLite database"
    try:
        with closing(_open(database)) as connection:
            tables = _tables(connection)
            query = "SELECT version_num FROM alembic_version"
            revisions = {row[0] for row in connection.execute(query)} if "alembic_version" in tables else set()
    except sqlite3.OperationalError:  # locked or unreadable: its content is unknown
        raise
    except sqlite3.DatabaseError as error:
        return _State.BROKEN, f"is damaged ({error})"
    known, newest = _schema_revisions()
    if any(name.startswith(_UNFINISHED) for name in tables):
        return _State.BROKEN, "is half made: a migration was cut short"
    if revisions == newest:
        return _State.READY, ""
    if revisions and revisions <= known:
        return _State.OLDER, "has an older schema"
    if tables and not tables & _SINCE_EVER:
        return _State.FOREIGN, "is a database of another program"
    if revisions:
        return _State.NEWER, f"schema {', '.join(sorted(revisions))}"
    return _State.BROKEN, "is half made: it has no schema version"


def _open(database: Path) -> sqlite3.Connection:
    """Opens an existing database read-write, because the journal of a killed process must be rolled back."""
    return sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True, timeout=_BUSY_SECONDS)


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _schema_revisions() -> tuple[set[str], set[str]]:
    """All and the newest schema revisions of the installed MLflow, parsed from its migration files (no import)."""
    package = importlib.util.find_spec("mlflow")
    places = package.submodule_search_locations if package else None
    known, followed = set[str](), set[str]()
    for place in places or ():
        for file in Path(place, "store", "db_migrations", "versions").glob("*.py"):
            text = file.read_text(errors="replace")
            known.update(re.findall(r"^revision(?:: \w+)? *= *['\"](\w+)['\"]", text, re.MULTILINE))
            for line in re.findall(r"^down_revision[^=]*=(.*)", text, re.MULTILINE):
                followed.update(re.findall(r"['\"](\w+)['\"]", line))
    return known, known - followed


def _tables_of_others(database: Path) -> str:
    """Tables of a readable database that are not MLflow's, comma-separated."""
    from mlflow.store.db.utils import Base

    if not database.stat().st_size:
        return ""
    try:
        with closing(_open(database)) as connection:
            found = _tables(connection)
    except sqlite3.DatabaseError:
        return ""
    own = set(Base.metadata.tables) | {"alembic_version", "sqlite_sequence"}
    return ", ".join(sorted(name for name in found - own if not name.startswith((_UNFINISHED, "sqlite_stat"))))


def _opened_by(database: Path) -> int | None:
    """The pid of another process with the file open, as far as this user may see."""
    wanted = {str(database.resolve()) + suffix for suffix in ("", *_COMPANIONS)}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile, or another user's
            if int(process.name) != os.getpid() and any(
                str(f.readlink()) in wanted for f in (process / "fd").iterdir()
            ):
                return int(process.name)
    return None


@contextmanager
def _locked(database: Path) -> Iterator[None]:
    """One process at a time; the kernel releases the lock of a killed process."""
    with database.with_name(f".{database.name}.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _set_aside(database: Path, why: str) -> None:
    """Renames the journals, then the database: journals must not be applied to the next database."""
    aside = f"{database.name}.broken-{time.strftime('%Y%m%d-%H%M%S')}"
    for suffix in (*_COMPANIONS, ""):
        part = database.with_name(database.name + suffix)
        if part.exists():
            part.rename(database.with_name(aside + suffix))
    if why:
        print(f"{database}: {why}; renamed to {aside}, runs go to a new database", file=sys.stderr, flush=True)


class _MigrationFailed(Exception):
    """An error of mlflow's migrations."""


def _create(database: Path) -> None:
    """Creates an empty database in a temporary file in the same folder, then renames it."""
    import mlflow.store.db.utils as mlflow_database

    fresh = _fresh(database)
    with _migrating(fresh) as engine:
        mlflow_database._initialize_tables(engine)
    _finish(fresh, database)


def _upgrade(database: Path) -> None:
    """Upgrades a copy, then replaces the database with it."""
    import mlflow.store.db.utils as mlflow_database

    fresh = _fresh(database)
    with closing(_open(database)) as old, closing(sqlite3.connect(fresh)) as copy:
        old.backup(copy)
    with _migrating(fresh) as engine:
        mlflow_database._upgrade_db(engine)
    shutil.copymode(database, fresh)
    _finish(fresh, database)


def _fresh(database: Path) -> Path:
    """A temporary path next to the database, without leftovers of a killed attempt."""
    fresh = database.with_name(f".{database.name}.new")
    for suffix in ("", *_COMPANIONS):
        fresh.with_name(fresh.name + suffix).unlink(missing_ok=True)
    return fresh


@contextmanager
def _migrating(fresh: Path) -> Iterator[Engine]:
    """mlflow's SQLAlchemy engine for the file.

    Raises:
        _MigrationFailed: the file's content is at fault.
        sqlite3.OperationalError: the disk is at fault.
    """
    import mlflow.store.db.utils as mlflow_database
    from alembic.util import CommandError
    from sqlalchemy.exc import SQLAlchemyError

    quieten()
    engine = mlflow_database.create_sqlalchemy_engine(f"sqlite:///{fresh}")
    try:
        yield engine
    except (SQLAlchemyError, CommandError) as error:
        reason = " ".join(str(error).partition("[SQL:")[0].split())
        if any(fault in reason for fault in _FAULTS_OF_THE_DISK):
            raise sqlite3.OperationalError(reason) from error
        raise _MigrationFailed(f"is half made or damaged: it cannot be upgraded ({reason})") from error
    finally:
        engine.dispose()


def _finish(fresh: Path, database: Path) -> None:
    """Adds mlflow's experiment "Default", with artifacts next to the database, and renames the file into place."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    SqlAlchemyStore(f"sqlite:///{fresh}", (database.parent / "mlartifacts").as_uri())._dispose_engine()
    fresh.replace(database)
