"""kfrec forget: a user's rows and outcomes go, and the models that know the user are named."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.served_rows.schema import SCHEMA, file_of
from components.served_rows.table import read_served
from pipelines.cli import main
from tests.predict.conftest import REGISTERED, Served

AT = datetime(2026, 11, 28, 10, tzinfo=UTC)


def _row(request: str, row: int, user: str | None, **others: object) -> dict[str, object]:
    base = dict.fromkeys(SCHEMA.names) | {"request_id": request, "row": row, "time": AT, "model": "m", "version": "1"}
    return base | {"variant": "champion", "user": user} | others


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two files of served rows, the second one without the user u."""
    folder = tmp_path / "served"
    of_table = json.dumps({"customer": "u", "price": 3})
    files = (
        [
            _row("a", 0, "u"),
            _row("a", 1, "w"),
            _row("b", 0, None, columns=of_table),
            _row("c", 0, "u", rank=1, item="i"),
        ],
        [_row("d", 0, "w")],
    )
    for number, rows in enumerate(files):
        path = folder / file_of(AT, "test", number)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)
    return folder


def left(folder: Path) -> list[tuple[str, int]]:
    table = pa.concat_tables(read_served(str(folder)))
    return list(zip(table["request_id"].to_pylist(), table["row"].to_pylist(), strict=True))


@pytest.mark.usefixtures("store")
def test_rows_and_outcomes_of_the_user_go_and_those_of_others_stay(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_request, by_user = tmp_path / "requests.csv", tmp_path / "users.jsonl"
    by_request.write_text("request_id,row\na,0\na,1\nb,\nd,0\n")
    by_user.write_text('{"user":"u","item":"i","time":1}\n{"user":"w","item":"i","time":2}\n')
    words = ["forget", "u", f"--served={log}", f"--outcomes={by_request}", f"--outcomes={by_user}", "--column=customer"]
    untouched = (log / file_of(AT, "test", 1)).read_bytes()
    assert main([*words, "--dry-run"]) == 0
    assert f"{log}: 3 served rows in 1 files would be removed" in capsys.readouterr().out
    assert len(left(log)) == 5
    assert main(words) == 0
    said = capsys.readouterr().out
    assert f"{log}: 3 served rows in 1 files removed\n{by_request}: 2 outcomes in 1 files removed" in said
    assert "no registered version has the user in its vocabulary" in said
    assert left(log) == [("a", 1), ("d", 0)]
    assert (log / file_of(AT, "test", 1)).read_bytes() == untouched
    assert pd.read_csv(by_request)["request_id"].tolist() == ["a", "d"]
    assert by_user.read_text() == '{"user":"w","item":"i","time":2}\n'
    assert main(words) == 0 and f"{log}: 0 served rows in 0 files removed" in capsys.readouterr().out


@pytest.mark.usefixtures("store")
def test_models_and_data_that_contain_the_user_are_named(
    served: Served,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["forget", served.users[0]]) == 1
    said = capsys.readouterr().out
    records = served.folder / "tfrecord"
    assert f"{REGISTERED} version 1: its vocabulary uid has the user, trained on {records}\nremove the user" in said


def test_an_empty_user_and_a_file_of_the_user_alone_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = tmp_path / "alone.csv"
    alone.write_text("user,item,time\nu,i,1\n")
    assert main(["forget", " "]) == 2
    assert main(["forget", "u", f"--outcomes={alone}", f"--workdir={tmp_path}"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("error: the user's id is empty")
    assert said[1] == f"error: {alone}: all of its 1 outcomes are of user u; delete the file"
    assert alone.exists()
