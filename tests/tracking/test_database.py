"""MLflow's SQLite database, as kills, other versions and other programs leave it."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from mlflow import MlflowClient

from components.errors import KfrecError
from components.private import require_writable
from components.tracking.database import prepare_database
from tests.waiting import UNTIL_ENDED

# Forks as many processes as each line of its input says, and prints their ids, then their exit codes.
_PREPARE = """
import os, sys
from pathlib import Path
import mlflow.store.tracking.sqlalchemy_store
from components.tracking.database import prepare_database

for line in sys.stdin:
    count, database = line.strip().split(" ", 1)
    children = []
    for _ in range(int(count)):
        child = os.fork()
        if not child:
            code = 1
            try:
                prepare_database(Path(database))
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    print(*children, flush=True)
    print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children), flush=True)
"""
# A revision of the schema half-way through the migrations.
_EARLIER = "bd07f7e963c5"


def change(database: Path, *statements: str) -> None:
    with closing(sqlite3.connect(database)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def migrate_in_place(database: Path, revision: str) -> None:
    """What mlflow itself does, as far as ``revision``."""
    from alembic import command
    from mlflow.store.db.utils import InitialBase, _get_alembic_config, create_sqlalchemy_engine

    database.parent.mkdir(parents=True, exist_ok=True)
    engine = create_sqlalchemy_engine(f"sqlite:///{database}")
    InitialBase.metadata.create_all(engine)
    config = _get_alembic_config(str(engine.url))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()


class Preparers:
    """Processes that prepare databases, forked from one that has imported mlflow."""

    def __init__(self, parent: subprocess.Popen[str]) -> None:
        self._parent = parent

    def start(self, database: Path, count: int = 1) -> list[int]:
        """Starts so many at once and returns their ids."""
        assert self._parent.stdin is not None
        print(count, database, file=self._parent.stdin, flush=True)
        return self._line()

    def exit_codes(self) -> list[int]:
        """Waits for the processes that were started last."""
        return self._line()

    def _line(self) -> list[int]:
        assert self._parent.stdout is not None
        return [int(word) for word in self._parent.stdout.readline().split()]


@pytest.fixture(scope="module")
def preparers() -> Iterator[Preparers]:
    command = [sys.executable, "-c", _PREPARE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        yield Preparers(parent)
        assert parent.stdin is not None
        parent.stdin.close()


def usable(database: Path) -> bool:
    client = MlflowClient(f"sqlite:///{database}")
    run = client.create_run("0")
    return client.get_run(run.info.run_id).info.status == "RUNNING"


@pytest.fixture(scope="module")
def half_migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    database = tmp_path_factory.mktemp("earlier") / "mlflow.db"
    migrate_in_place(database, _EARLIER)
    return database


@pytest.fixture
def earlier(half_migrated: Path, tmp_path: Path) -> Path:
    """A database with the tables of a revision half-way through the migrations."""
    database = tmp_path / "mlflow.db"
    database.write_bytes(half_migrated.read_bytes())
    return database


@pytest.fixture(scope="module")
def ready(empty_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copy(empty_database, tmp_path_factory.mktemp("ready")))


@pytest.mark.slow
def test_two_first_runs_at_once_share_one_database(preparers: Preparers, tmp_path: Path) -> None:
    database = tmp_path / "runs" / "mlflow.db"
    preparers.start(database, 2)
    assert preparers.exit_codes() == [0, 0]
    assert usable(database)


def written(path: Path) -> int:
    """Bytes of a file, which may be renamed at any moment."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


@pytest.mark.slow
def test_a_kill_in_the_middle_of_the_creation_leaves_a_workdir_that_can_be_used(
    preparers: Preparers, ready: Path, tmp_path: Path
) -> None:
    database, fresh = tmp_path / "mlflow.db", tmp_path / ".mlflow.db.new"
    (process,) = preparers.start(database)
    while not database.exists() and written(fresh) <= 0.6 * written(ready):
        time.sleep(0.005)
    with suppress(ProcessLookupError):  # it was faster
        os.kill(process, signal.SIGKILL)
    assert preparers.exit_codes() in ([-signal.SIGKILL], [0])
    prepare_database(database)
    assert usable(database)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".mlflow.db.lock", "mlflow.db"]


@pytest.mark.slow
def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").touch()
    prepare_database(tmp_path / "mlflow.db")
    assert usable(tmp_path / "mlflow.db")


@pytest.mark.slow
def test_the_journal_of_a_lost_database_does_not_meet_the_next_one(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    (tmp_path / "mlflow.db-journal").write_bytes(b"of another database")
    prepare_database(database)
    assert usable(database) and not (tmp_path / "mlflow.db-journal").exists()


@pytest.mark.slow
def test_a_database_of_an_earlier_mlflow_is_upgraded_with_its_runs(
    earlier: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    change(
        earlier,
        "INSERT INTO experiments (experiment_id, name, lifecycle_stage) VALUES (7, 'earlier', 'active')",
        "INSERT INTO runs (run_uuid, name, user_id, status, start_time, lifecycle_stage, experiment_id) "
        "VALUES ('r1', 'first', 'someone', 'FINISHED', 1, 'active', 7)",
    )
    prepare_database(earlier)
    assert MlflowClient(f"sqlite:///{earlier}").get_run("r1").info.status == "FINISHED"
    assert capfd.readouterr().err == ""


def refused(database: Path, what: str) -> None:
    """Refused in one line, and not touched."""
    before = database.read_bytes()
    with pytest.raises(KfrecError, match=what) as told:
        prepare_database(database)
    assert "\n" not in str(told.value) and str(database) in str(told.value)
    assert database.read_bytes() == before


def test_a_newer_mlflows_database_is_refused(ready: Path, tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    database.write_bytes(ready.read_bytes())
    change(database, "UPDATE alembic_version SET version_num = 'ffffffffffff'")
    refused(database, r"written by a newer MLflow than [\d.]+ \(schema ffffffffffff\)")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    database.write_text("notes, whatever the name says")
    refused(database, r"is not an SQLite database, or damaged \(.*\); set MLFLOW_TRACKING_URI")


@pytest.mark.parametrize("share", [0.001, 0.5])
def test_a_file_that_was_cut_off_is_refused(share: float, ready: Path, tmp_path: Path) -> None:
    database, content = tmp_path / "mlflow.db", ready.read_bytes()
    database.write_bytes(content[: int(len(content) * share)])
    refused(database, "damaged")


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    change(database, "CREATE TABLE customers (name TEXT)")
    refused(database, "is not a complete database of MLflow")


@pytest.mark.parametrize("statement", ["CREATE TABLE _alembic_tmp_datasets (name TEXT)", "DROP TABLE model_versions"])
def test_what_a_kill_inside_mlflow_left_is_refused(statement: str, earlier: Path) -> None:
    change(earlier, statement)
    refused(earlier, "MLflow cannot upgrade it")


def test_an_earlier_database_that_is_open_elsewhere_is_not_replaced(earlier: Path) -> None:
    reader = subprocess.Popen(["sleep", str(UNTIL_ENDED)], stdin=earlier.open("rb"))
    try:
        refused(earlier, f"process {reader.pid} has it open")
    finally:
        reader.kill()
        reader.wait()


def test_a_database_that_is_ready_costs_no_import_of_mlflow(ready: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from components.tracking.database import prepare_database; "
        "prepare_database(Path(sys.argv[1])); sys.exit('mlflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(ready)]).returncode == 0


def test_the_newest_schema_revision_is_mlflows_own() -> None:
    from mlflow.store.db.utils import _get_latest_schema_revision

    from components.tracking.database import _schema_revisions

    known, newest = _schema_revisions()
    assert newest == {_get_latest_schema_revision()} and newest < known and _EARLIER in known


@pytest.mark.parametrize("place", ["/proc/absent/mlflow.db", "/proc/mlflow.db"])
def test_a_place_that_cannot_be_written_is_one_line(place: str) -> None:
    with pytest.raises(KfrecError, match=r"^/proc/[^\n]*: [^\n]*; [^\n]*$"):
        prepare_database(Path(place))


def test_a_database_that_may_only_be_read_is_ready(ready: Path, tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    database.write_bytes(ready.read_bytes())
    database.chmod(0o444)
    prepare_database(database)
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow.db"]


def as_user(user: int, group: int, job: Callable[[], object]) -> str:
    """What a job raises that another user of the machine does, in a process of its own; empty if nothing."""
    ended, told = os.pipe()
    if not (child := os.fork()):
        said = ""
        try:
            os.setgroups([group])
            os.setgid(group)
            os.setuid(user)
            os.umask(0o022)
            job()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(told, said.encode())
            os._exit(0)
    os.close(told)
    os.waitpid(child, 0)
    with os.fdopen(ended) as answer:
        return answer.read()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes other users")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork")
@pytest.mark.parametrize(("mode", "shared"), [(0o2770, True), (0o777, False)])
def test_a_group_shares_the_database_of_its_folder(mode: int, shared: bool) -> None:
    with tempfile.TemporaryDirectory() as above:  # that of pytest is closed to others
        Path(above).chmod(0o755)
        folder = Path(above) / "runs"
        folder.mkdir()
        os.chown(folder, 0, 7003)
        folder.chmod(mode)
        database = folder / "mlflow.db"
        prepare_database(database)

        def write() -> None:
            with closing(sqlite3.connect(database)) as connection, connection:
                connection.execute("CREATE TABLE own (a)")

        assert (as_user(7002, 7003, write) == "") is shared
        assert as_user(7004, 7005, write) != ""
        said = as_user(7002, 7003, lambda: require_writable(folder, ["mlflow.db"]))
        assert ("runs/mlflow.db: belongs to another user" in said) is not shared, said
