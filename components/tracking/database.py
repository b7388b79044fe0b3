"""MLflow's SQLite database: created and migrated by MLflow in a temporary file that is renamed when it is complete.

mlflow itself migrates in place, without a lock and outside a transaction, so a kill would leave a partial database.
"""

from __future__ import annotations

import fcntl
import importlib.util
import logging
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

from components.errors import KfrecError, explain_os_error
from components.private import modes_of, open_own

_COMPANIONS = ("-journal", "-wal", "-shm")
_BUSY_SECONDS = 20
# mlflow also logs the traceback of every database error that it raises.
_CHATTY = {"mlflow": logging.ERROR, "alembic": logging.ERROR, "mlflow.store.db.utils": logging.CRITICAL}
_REMEDY = "set MLFLOW_TRACKING_URI to another file, or choose another workdir"


def prepare_database(database: Path) -> None:
    """Makes ``database`` a complete database of the installed MLflow; upgrades one of an earlier MLflow.

    A ready database costs a few milliseconds and no import of mlflow. Concurrent processes take turns.

    Raises:
        KfrecError: it is damaged, a newer MLflow or another program wrote it, it is to be upgraded and in use, or its
            folder cannot be written. The file stays as it was.
    """
    try:
        if _is_ready(database):
            return
        with modes_of(database.parent) as mode:
            database.parent.mkdir(parents=True, exist_ok=True)
            with _locked(database):
                if not _is_ready(database):  # another process may have prepared it before this one got the lock
                    _migrate(database, mode)
    except OSError as error:
        unusable = KfrecError(
            f"{error.filename or database}: MLflow's database cannot be kept here ({error.strerror}); {_REMEDY}"
        )
        raise explain_os_error(error, database) or unusable from error
    except sqlite3.OperationalError as error:  # locked or unreadable: its content is unknown
        raise KfrecError(f"{database}: cannot be opened ({error}); {_REMEDY}") from error
    except sqlite3.DatabaseError as error:
        raise KfrecError(f"{database}: is not an SQLite database, or damaged ({error}); {_REMEDY}") from error


def quieten() -> None:
    """Limits mlflow's log to errors that are not reported otherwise."""
    for chatty, level in _CHATTY.items():
        logging.getLogger(chatty).setLevel(level)


def _is_ready(database: Path) -> bool:
    """Whether the database has the installed MLflow's schema; False if it is to be created or upgraded.

    Raises:
        KfrecError: this MLflow must not change the database.
    """
    if not database.exists() or not database.stat().st_size:
        return False
    with closing(_open(database)) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        query = "SELECT version_num FROM alembic_version"
        revisions = {row[0] for row in connection.execute(query)} if "alembic_version" in tables else set()
    known, newest = _schema_revisions()
    if not revisions or "experiments" not in tables:
        raise KfrecError(f"{database}: is not a complete database of MLflow; {_REMEDY}")
    if not revisions <= known:
        raise KfrecError(
            f"{database}: written by a newer MLflow than {version('mlflow')} (schema {', '.join(sorted(revisions))}); "
            f"install that one, or {_REMEDY}"
        )
    return revisions == newest


def _open(database: Path) -> sqlite3.Connection:
    """Opens an existing database read-write, because the journal of a killed process must be rolled back."""
    return sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True, timeout=_BUSY_SECONDS)


def _schema_revisions() -> tuple[set[str], set[str]]:
    """All and the newest schema revisions of the installed MLflow, parsed from its migration files (no import)."""
    package = importlib.util.find_spec("mlflow")
    locations = package.submodule_search_locations if package else None
    known, followed = set[str](), set[str]()
    for location in locations or ():
        for file in Path(location, "store", "db_migrations", "versions").glob("*.py"):
            text = file.read_text(errors="replace")
            known.update(re.findall(r"^revision(?:: \w+)? *= *['\"](\w+)['\"]", text, re.MULTILINE))
            for line in re.findall(r"^down_revision[^=]*=(.*)", text, re.MULTILINE):
                followed.update(re.findall(r"['\"](\w+)['\"]", line))
    return known, known - followed


def _opened_by(database: Path) -> int | None:
    """The pid of another process with the file open, as far as this user may see."""
    import psutil

    wanted = {str(database.resolve()) + suffix for suffix in ("", *_COMPANIONS)}
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # ended meanwhile, or another user's
            if process.pid != os.getpid() and any(file.path in wanted for file in process.open_files()):
                return int(process.pid)
    return None


@contextmanager
def _locked(database: Path) -> Iterator[None]:
    """One process at a time; the kernel releases the lock of a killed process."""
    with os.fdopen(open_own(database.with_name(f".{database.name}.lock")), "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _migrate(database: Path, mode: int) -> None:
    """Creates a database, or upgrades a copy of it, in the same folder, and renames it into place."""
    import mlflow.store.db.utils as mlflow_database
    from alembic.util import CommandError
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
    from sqlalchemy.exc import SQLAlchemyError

    quieten()
    earlier = database.exists() and database.stat().st_size > 0
    if earlier and (user := _opened_by(database)):
        # It would go on writing to the replaced file.
        raise KfrecError(
            f"{database}: is to be upgraded, and process {user} has it open; wait for it or stop it, then run again"
        )
    fresh = database.with_name(f".{database.name}.new")
    for suffix in ("", *_COMPANIONS):  # leftovers of a killed attempt
        fresh.with_name(fresh.name + suffix).unlink(missing_ok=True)
    if earlier:
        with closing(_open(database)) as old, closing(sqlite3.connect(fresh)) as copy:
            old.backup(copy)
        shutil.copymode(database, fresh)
    else:
        os.close(os.open(fresh, os.O_CREAT | os.O_EXCL, mode))  # SQLite would not let a group write
    engine = mlflow_database.create_sqlalchemy_engine(f"sqlite:///{fresh}")
    try:
        (mlflow_database._upgrade_db if earlier else mlflow_database._initialize_tables)(engine)
        # Adds mlflow's experiment "Default", with artifacts next to the database.
        SqlAlchemyStore(f"sqlite:///{fresh}", (database.parent / "mlartifacts").as_uri())._dispose_engine()
    except (SQLAlchemyError, CommandError) as error:
        reason = " ".join(str(error).partition("[SQL:")[0].split())
        raise KfrecError(
            f"{database}: MLflow cannot {'upgrade' if earlier else 'create'} it ({reason}); {_REMEDY}"
        ) from error
    finally:
        engine.dispose()
    for suffix in _COMPANIONS:  # of a lost database; they must not be applied to this one
        database.with_name(database.name + suffix).unlink(missing_ok=True)
    fresh.replace(database)
