"""A real PostgreSQL with the account and the database that the manifests' own has; one a test module."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.fakes.handler import free_port
from tests.waiting import LONGEST

NAME, PASSWORD = "mlflow", "p@ss/w%rd only for these tests"
_SERVERS = "/usr/lib/postgresql"  # where Debian keeps the programs of each version
_NOBODY = 65534
_WAIT_SECONDS = LONGEST


def programs() -> Path | None:
    """The folder with initdb and postgres, of the newest version; None where PostgreSQL is not installed."""
    if found := shutil.which("initdb"):
        return Path(found).parent
    versions = sorted(Path(_SERVERS).glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    return versions[-1].parent if versions else None


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The database's URI, as its owner would write it: postgresql://."""
    binaries = programs()
    if binaries is None:
        pytest.skip("no PostgreSQL here; on Debian: apt-get install postgresql")
    with running_postgres(binaries) as uri:
        yield uri


@contextmanager
def running_postgres(binaries: Path, address: str = "127.0.0.1") -> Iterator[str]:
    """Runs a server and yields the database's URI.

    Args:
        binaries: folder with its programs.
        address: of this machine, where it listens.
    """
    port = free_port()
    # It refuses to run as root, and another user reaches no folder of pytest's.
    someone: dict[str, Any] = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="kfrec-postgres-"))
    (folder / "password").write_text(PASSWORD)
    if someone:
        for path in (folder, folder / "password"):
            os.chown(path, _NOBODY, _NOBODY)
    data = str(folder / "data")
    made = subprocess.run(
        [binaries / "initdb", "-D", data, "-U", NAME, "--auth=scram-sha-256", f"--pwfile={folder / 'password'}",
         "--encoding=UTF8", "--no-sync"],
        capture_output=True, text=True, cwd=folder, **someone,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    with (folder / "data" / "pg_hba.conf").open("a") as file:
        file.write("host all all samenet scram-sha-256\n")
    options = ["-h", address, "-p", str(port), "-k", str(folder), "-c", "fsync=off"]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [binaries / "postgres", "-D", data, *options], stdout=log, stderr=log, cwd=folder, **someone
        )
    try:
        _make_database(address, port, server, folder / "log")
        yield f"postgresql://{NAME}:{quote(PASSWORD, safe='')}@{address}:{port}/{NAME}"
    finally:
        server.send_signal(signal.SIGINT)  # a fast shutdown
        server.wait(LONGEST)
        shutil.rmtree(folder)


def _make_database(address: str, port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    account: dict[str, Any] = {"host": address, "port": port, "user": NAME, "password": PASSWORD}
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        assert server.poll() is None and time.monotonic() < until, log.read_text()
        try:
            with psycopg.connect(**account, dbname="postgres", autocommit=True) as connection:
                connection.execute(f'create database "{NAME}"')
                return
        except psycopg.OperationalError:
            time.sleep(0.1)
