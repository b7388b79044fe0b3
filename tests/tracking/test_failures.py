"""What a person reads when the store cannot be used: one line with the remedy."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest
from mlflow.exceptions import MlflowException, RestException

from components.errors import KfrecError
from components.tracking.database import prepare_database
from components.tracking.run import tracked_run
from components.tracking.store import prepare
from tests.fakes.handler import answering


@pytest.fixture(autouse=True)
def tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)


def line(monkeypatch: pytest.MonkeyPatch, uri: str) -> str:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(KfrecError) as told:
        tracked_run("any").__enter__()
    assert "\n" not in str(told.value)
    return str(told.value)


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert line(monkeypatch, "http://127.0.0.1:9") == (
        "MLflow at http://127.0.0.1:9 cannot be used (no answer after several tries); start it, or set "
        "MLFLOW_TRACKING_URI to sqlite:///FILE or to a server's http:// address"
    )


def test_an_internal_error_of_the_server_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(500, json.dumps({"error_code": "INTERNAL_ERROR", "message": "could not extend file"})) as uri:
        assert line(monkeypatch, uri) == f"MLflow at {uri} answered 500; look into the server's log, then run again"


def test_a_server_that_is_not_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(404, "nothing here") as uri:
        told = line(monkeypatch, uri)
    assert told == f"MLflow at {uri} answered 404: nothing here; check that it is the address of an MLflow server"


def test_an_error_of_the_server_in_the_middle_of_a_step_is_one_line(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    with answering(500, "out of memory") as uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
        with pytest.raises(KfrecError, match="answered 500"), tracked_run("any"):
            MlflowClient(uri).get_run("any")


def test_a_refusal_of_the_account_in_the_middle_of_a_step_is_one_line(store: str) -> None:
    refusal = RestException({"error_code": "PERMISSION_DENIED", "message": "Permission denied"})
    with pytest.raises(KfrecError, match="refused this account \\(403\\)"), tracked_run("any"):
        raise refusal


def test_a_refusal_of_what_was_asked_is_a_defect_and_keeps_its_traceback(store: str) -> None:
    refusal = RestException({"error_code": "INVALID_PARAMETER_VALUE", "message": "Invalid metric name"})
    with pytest.raises(RestException), tracked_run("any"):
        raise refusal


def test_a_server_that_is_gone_at_the_end_of_a_step_is_one_line(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KfrecError, match="no answer after several tries"), tracked_run("any") as run:
        gone = MlflowException("API request to http://host/x failed with exception Max retries exceeded")
        monkeypatch.setattr(run.client, "set_terminated", Mock(side_effect=gone))


def test_a_missing_driver_names_its_package_and_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    told = line(monkeypatch, "postgresql://someone:secret@127.0.0.1:1/mlflow")
    assert "secret" not in told
    assert told.startswith(
        "MLflow at postgresql://someone:***@127.0.0.1:1/mlflow needs the package psycopg[binary], which is not "
        "installed; install it, or set MLFLOW_TRACKING_URI to sqlite:///FILE"
    )


def test_a_driver_that_sqlalchemy_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Can't load plugin" in line(monkeypatch, "mssql+unheard://host/mlflow")


def test_a_scheme_that_mlflow_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.search(r"unsupported URI 'ftp://host/x'.*; set MLFLOW_TRACKING_URI", line(monkeypatch, "ftp://host/x"))


@pytest.mark.slow
def test_a_damaged_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    database = tmp_path / "mlflow.db"
    prepare_database(database)
    with closing(sqlite3.connect(database)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'experiments'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with database.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
    told = line(monkeypatch, f"sqlite:///{database}")
    assert "(malformed); the file is damaged: restore a copy, or move it away" in told
    assert capfd.readouterr().err == ""


def test_a_server_is_asked_before_the_work_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with pytest.raises(KfrecError, match="no answer after several tries"):
        prepare()
