"""kfrec recommend --vectors: what an index of one's own needs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from components.inference.vectors import COLUMNS, ITEMS, USERS
from pipelines.cli import main
from tests.fakes.known_scores import make_known_retriever
from tests.predict.conftest import REGISTERED, Served

pytestmark = pytest.mark.usefixtures("store")


def test_the_dot_products_of_the_vectors_are_the_order_of_the_lists(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = {item: float(number) for number, item in enumerate(served.items)}
    model = make_known_retriever(tmp_path / "model", served.folder / "tfrecord", scores)
    words = ["recommend", "--all", f"--model={model}", f"--data={served.folder / 'tfrecord'}"]
    for _ in range(2):  # the second call replaces the files of the first
        assert main([*words, f"--vectors={tmp_path / 'vectors'}"]) == 0
    assert f"{len(served.users)} users in {USERS} and {len(served.items)} items in {ITEMS}" in capsys.readouterr().out
    users, items = (pq.read_table(tmp_path / "vectors" / name) for name in (USERS, ITEMS))
    assert users.column_names == items.column_names == list(COLUMNS)
    assert set(users["id"].to_pylist()) == set(served.users) and set(items["id"].to_pylist()) == set(served.items)
    found = np.array(users["vector"].to_pylist()) @ np.array(items["vector"].to_pylist()).T
    best = np.array(items["id"].to_pylist())[np.argsort(-found[0])]
    assert best.tolist() == served.items[::-1]
    assert users["model"][0].as_py() == str(model) and len(users["version"][0].as_py()) > 8


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--all", "--vectors=v"], "--vectors: the model has no user_vectors and target_vectors; name a retrieval"),
        (["U1", "--vectors=v"], "--vectors FOLDER is of --all and --users, in place of --output"),
        (["--all", "--vectors=v", "--output=o.csv"], "--vectors FOLDER is of --all and --users, in place of --output"),
    ],
)
def test_what_has_no_vectors_is_one_line(
    words: list[str], said: str, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["recommend", f"--model={REGISTERED}@champion", *words]) == 2
    assert said in capsys.readouterr().err and not list(tmp_path.iterdir())
