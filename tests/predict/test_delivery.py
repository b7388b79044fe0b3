"""Lists in a database: all of one delivery or all of the next, with the model in each row."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from components.errors import KfrecError
from components.inference.delivery import COLUMNS, delivering
from pipelines.cli import main
from tests.predict.conftest import REGISTERED, Served

pytestmark = pytest.mark.usefixtures("store")


def rows(database: Path, columns: str = "*", table: str = "lists") -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(database)) as opened:
        return opened.execute(f"SELECT {columns} FROM {table} ORDER BY model, user_id, rank").fetchall()


def lists(users: list[str], model: str, version: str = "1") -> pa.RecordBatch:
    count = len(users)
    values = [users, [1] * count, ["i"] * count, [0.5] * count, [""] * count, [model] * count, [version] * count]
    names = ["user", "rank", "item", "likelihood", "flag", "model", "version"]
    return pa.RecordBatch.from_arrays([pa.array(each) for each in values], names=names)


def test_the_lists_of_the_file_are_those_of_the_table(served: Served, tmp_path: Path) -> None:
    users, file, database = tmp_path / "users.csv", tmp_path / "lists.csv", tmp_path / "lists.db"
    users.write_text(f"user,history\n{served.users[0]},\nnobody,{served.items[0]}\n")
    words = ["recommend", f"--model={REGISTERED}@champion", f"--users={users}", "--top=3"]
    for output in (file, f"sqlite:///{database}", f"sqlite:///{database}"):
        assert main([*words, f"--output={output}"]) == 0
    header, *lines = file.read_text().replace('"', "").splitlines()
    assert header == "user,rank,item,likelihood,flag,model,version"
    expected = sorted((user, int(rank), item) for user, rank, item, *_ in (line.split(",") for line in lines))
    assert rows(database, "user_id, rank, item_id") == expected
    assert set(rows(database, "model, version")) == {(REGISTERED, "1")}


def test_a_delivery_replaces_the_lists_of_its_model_alone(tmp_path: Path) -> None:
    database = tmp_path / "lists.db"
    for users, model, version in ((["a", "b"], "one", "1"), (["c"], "other", "4"), (["b"], "one", "2")):
        with delivering(f"sqlite:///{database}", "tonight", model) as writer:
            writer.write(lists(users, model, version))
    assert rows(database, "model, version, user_id", "tonight") == [("one", "2", "b"), ("other", "4", "c")]


def test_readers_see_the_last_delivery_until_the_next_is_whole(tmp_path: Path) -> None:
    database = tmp_path / "lists.db"
    with delivering(f"sqlite:///{database}", "lists", "one") as writer:
        writer.write(lists(["a", "b"], "one"))
    with pytest.raises(KfrecError, match="broken"), delivering(f"sqlite:///{database}", "lists", "one") as writer:
        writer.write(lists(["c"], "one", "2"))
        assert [row[0] for row in rows(database, "user_id")] == ["a", "b"]
        raise KfrecError("broken")
    assert [row[0] for row in rows(database, "user_id")] == ["a", "b"]


def test_a_table_of_others_is_left_as_it_is(tmp_path: Path) -> None:
    database = tmp_path / "shop.db"
    with closing(sqlite3.connect(database)) as opened:
        opened.execute("CREATE TABLE lists (user_id TEXT, model TEXT)")
    said = "the table lists has no column rank; name another one with --table"
    with pytest.raises(KfrecError, match=said), delivering(f"sqlite:///{database}", "lists", "one"):
        pass


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nothing://me:secret@host/x", r"nothing://me:\*\*\*@host/x: the lists are not delivered"),
        ("sqlite:////no/such/folder/x.db", "unable to open database file"),
    ],
)
def test_a_database_that_cannot_be_used_is_one_line_without_the_password(url: str, said: str) -> None:
    with pytest.raises(KfrecError, match=said) as error, delivering(url, "lists", "one"):
        pass
    assert "secret" not in str(error.value) and "\n" not in str(error.value)


def test_the_columns_are_those_of_a_file_of_lists() -> None:
    assert len(COLUMNS) == len(lists([], "one").schema.names)
