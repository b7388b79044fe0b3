"""MLflow's SQLite database, as kills, other versions and other programs leave it."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from mlflow import MlflowClient

from components.errors import KfrecError
from components.tracking.database import prepare_database

_PREPARE = """
import sys
from pathlib import Path
import mlflow.store.tracking.sqlalchemy_store
from components.tracking.database import prepare_database
print("imported", flush=True)
sys.stdin.readline()
prepare_database(Path(sys.argv[1]))
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


@contextmanager
def preparing(database: Path, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are about to prepare the database; each begins with the next line of its input."""
    command = [sys.executable, "-c", _PREPARE, str(database)]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    processes = [subprocess.Popen(command, **pipes) for _ in range(count)]  # type: ignore[call-overload]
    try:
        for process in processes:
            assert process.stdout.readline() == "imported\n"
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def usable(database: Path) -> bool:
    client = MlflowClient(f"sqlite:///{database}")
    run = client.create_run("0")
    return client.get_run(run.info.run_id).info.status == "RUNNING"


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    database = tmp_path_factory.mktemp("ready") / "mlflow.db"
    prepare_database(database)
    return database


def aside(database: Path) -> list[str]:
    return sorted(path.name for path in database.parent.glob("mlflow.db.broken-*"))


def test_two_first_runs_at_once_share_one_database(tmp_path: Path) -> None:
    database = tmp_path / "runs" / "mlflow.db"
    with preparing(database, 2) as processes:
        for process in processes:
            begin(process)
        assert [process.communicate(timeout=120)[1] for process in processes] == ["", ""]
        assert [process.returncode for process in processes] == [0, 0]
    assert usable(database) and aside(database) == []


@pytest.mark.slow
def test_a_kill_at_any_moment_of_the_creation_leaves_a_workdir_that_can_be_used(tmp_path: Path) -> None:
    with preparing(tmp_path / "mlflow.db", 1) as (process,):
        started = time.monotonic()
        begin(process)
        process.communicate(timeout=120)
        seconds = time.monotonic() - started
    for number in range(3):
        database = tmp_path / str(number) / "mlflow.db"
        with preparing(database, 1) as (process,):
            begin(process)
            time.sleep(seconds * (number + 0.5) / 3)
            process.send_signal(signal.SIGKILL)
        prepare_database(database)
        assert usable(database)
        assert sorted(path.name for path in database.parent.iterdir()) == [".mlflow.db.lock", "mlflow.db"]


def test_what_a_kill_inside_mlflow_left_is_set_aside_and_said_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    database = tmp_path / "mlflow.db"
    migrate_in_place(database, _EARLIER)
    change(database, "CREATE TABLE _alembic_tmp_datasets (name TEXT)")
    prepare_database(database)
    assert usable(database)
    (left,) = aside(database)
    (line,) = capfd.readouterr().err.splitlines()
    assert line == (
        f"{database}: is half made: a migration was cut short; renamed to {left}, runs go to a new database"
    )


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda content: b"", "is empty"),
        (lambda content: content[:10], "is damaged"),
        (lambda content: content[: len(content) // 2], "is damaged"),
    ],
)
def test_a_file_that_was_cut_off_is_set_aside(
    damage: object, told: str, ready: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    database = tmp_path / "mlflow.db"
    content = damage(ready.read_bytes())  # type: ignore[operator]
    database.write_bytes(content)
    prepare_database(database)
    (left,) = aside(database)
    assert told in capfd.readouterr().err and (tmp_path / left).read_bytes() == content
    assert usable(database)


def test_the_journal_of_a_lost_database_does_not_meet_the_next_one(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    (tmp_path / "mlflow.db-journal").write_bytes(b"of another database")
    prepare_database(database)
    assert usable(database) and not (tmp_path / "mlflow.db-journal").exists()


def test_a_database_of_an_earlier_mlflow_is_upgraded_with_its_runs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    database = tmp_path / "mlflow.db"
    migrate_in_place(database, _EARLIER)
    change(
        database,
        "INSERT INTO experiments (experiment_id, name, lifecycle_stage) VALUES (7, 'earlier', 'active')",
        "INSERT INTO runs (run_uuid, name, user_id, status, start_time, lifecycle_stage, experiment_id) "
        "VALUES ('r1', 'first', 'someone', 'FINISHED', 1, 'active', 7)",
    )
    prepare_database(database)
    assert MlflowClient(f"sqlite:///{database}").get_run("r1").info.status == "FINISHED"
    assert aside(database) == [] and capfd.readouterr().err == ""


def test_a_half_migrated_database_that_cannot_be_upgraded_is_set_aside(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    migrate_in_place(database, _EARLIER)
    change(database, "DROP TABLE model_versions")
    prepare_database(database)
    assert len(aside(database)) == 1 and usable(database)


def refused(database: Path, what: str) -> None:
    """Refused in one line, and not touched."""
    before = database.read_bytes()
    with pytest.raises(KfrecError, match=what) as told:
        prepare_database(database)
    assert "\n" not in str(told.value) and str(database) in str(told.value)
    assert database.read_bytes() == before and aside(database) == []


def test_a_newer_mlflows_database_is_refused(ready: Path, tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    database.write_bytes(ready.read_bytes())
    change(database, "UPDATE alembic_version SET version_num = 'ffffffffffff'")
    refused(database, r"written by a newer MLflow than [\d.]+ \(schema ffffffffffff\)")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    database.write_text("notes, whatever the name says")
    refused(database, "is not an SQLite database; set MLFLOW_TRACKING_URI")


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    change(database, "CREATE TABLE customers (name TEXT)")
    refused(database, "is a database of another program")


def test_a_broken_database_that_another_program_shares_is_refused(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    migrate_in_place(database, _EARLIER)
    change(database, "CREATE TABLE _alembic_tmp_datasets (name TEXT)", "CREATE TABLE customers (name TEXT)")
    refused(database, r"it holds tables of another program \(customers\)")


def test_a_half_made_database_that_is_open_elsewhere_is_left_to_its_maker(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    migrate_in_place(database, _EARLIER)
    reader = subprocess.Popen(["sleep", "60"], stdin=database.open("rb"))
    try:
        refused(database, f"process {reader.pid} has it open")
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
