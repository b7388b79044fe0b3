"""The recommend step: raw events in, the lists of kfrec recommend out, in a file, object storage or a database."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from shutil import copytree
from typing import Any

import pandas as pd
import pytest

from components.artifacts import open_artifact
from components.artifacts.folder import MANIFEST
from components.errors import KfrecError
from components.recommend.step import run
from components.steps.catalog import RecommendParameters
from pipelines.cli import main
from tests.predict.conftest import REGISTERED, Served

pytestmark = pytest.mark.usefixtures("store")
MODEL = f"{REGISTERED}@champion"


def by_command(served: Served, output: Path, *words: str) -> pd.DataFrame:
    """The lists of kfrec recommend, by user and rank."""
    events = f"--events={served.folder / 'raw'}"
    assert main(["recommend", "--all", f"--model={MODEL}", events, f"--output={output}", "--top=3", *words]) == 0
    return pd.read_parquet(output).sort_values(["user", "rank"], ignore_index=True)


def test_the_lists_are_those_of_the_command_and_lie_where_they_are_wanted(served: Served, tmp_path: Path) -> None:
    candidates, exclude = tmp_path / "stock.csv", tmp_path / "bought.csv"
    candidates.write_text("item\n" + "\n".join(served.items[:30]) + "\n")
    exclude.write_text(f"user,item\n{served.users[0]},{served.items[0]}\n")
    wanted = by_command(
        served, tmp_path / "wanted.parquet", f"--candidates={candidates}", f"--exclude={exclude}", "--keep-seen"
    )
    delivered = tmp_path / "lists.parquet"
    parameters = RecommendParameters(
        MODEL, str(delivered), candidates=str(candidates), exclude=str(exclude), top=3, keep_seen="true"
    )
    told = run(parameters, raw=served.folder / "raw", lists=tmp_path / "out")
    found = pd.read_parquet(delivered).sort_values(["user", "rank"], ignore_index=True)
    pd.testing.assert_frame_equal(found, wanted)
    assert (told["users"], told["items"], told["left_out"]) == (wanted["user"].nunique(), len(wanted), 0)
    made = open_artifact(tmp_path / "out")
    made.verify()
    assert {entry.path for entry in made.files} == {"lists.parquet", "left_out.csv", "recommendation.json"}
    assert json.loads((tmp_path / "out" / "recommendation.json").read_text())["model"] == f"{REGISTERED} version 1"


def test_new_items_of_tonights_catalogue_are_listed_as_they_are_popular(served: Served, tmp_path: Path) -> None:
    known = served.items[:30]
    stock = [*((item, "x") for item in known), ("brand new", "x"), ("newer", "x"), ("of its own", "y")]
    (tmp_path / "stock.csv").write_text("item,category\n" + "".join(f"{item},{name}\n" for item, name in stock))
    events = tmp_path / "tonight"
    copytree(served.folder / "raw", events)
    path = next(path for path in events.iterdir() if path.name.startswith("reviews"))
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as file:
        lines = file.readlines()
    last = {**json.loads(lines[-1]), "unixReviewTime": max(json.loads(line)["unixReviewTime"] for line in lines) + 60}
    with opened(path, "wt") as file:
        file.writelines([*lines, *(json.dumps({**last, "asin": "brand new"}) + "\n" for _ in range(400))])
    (events / MANIFEST).unlink()
    output = tmp_path / "lists.csv"
    words = [f"--events={events}", f"--output={output}", f"--candidates={tmp_path / 'stock.csv'}", "--keep-seen"]
    assert main(["recommend", "--all", f"--model={MODEL}", "--top=33", *words]) == 0
    lists = pd.read_csv(output, keep_default_na=False)
    flags = lists.groupby("item")["flag"].unique().map(list)
    assert flags["brand new"] == flags["newer"] == ["new"] and flags["of its own"] == ["unknown"]
    ranks = lists.groupby("item")["rank"].mean()
    assert ranks["brand new"] == ranks.min() and ranks["newer"] < 33 and ranks["of its own"] == 33


def test_lists_go_to_object_storage(served: Served, tmp_path: Path, gcs_bucket: Any) -> None:
    from components.storage import open_store

    prefix = f"gs://{gcs_bucket.name}/tonight"
    run(RecommendParameters(MODEL, f"{prefix}/lists.csv", top=2), raw=served.folder / "raw", lists=tmp_path / "out")
    store = open_store(prefix)
    (tmp_path / "found.csv").write_bytes(b"".join(store.read(store.stat("lists.csv"))))
    assert len(pd.read_csv(tmp_path / "found.csv")) == len(pd.read_csv(tmp_path / "out" / "lists.csv")) > 40


def test_lists_go_into_a_database_which_alone_has_them(served: Served, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'lists.db'}"
    told = run(RecommendParameters(MODEL, url, "tonight", top=2), raw=served.folder / "raw", lists=tmp_path / "out")
    with closing(sqlite3.connect(tmp_path / "lists.db")) as opened:
        assert opened.execute("SELECT count(*) FROM tonight").fetchone() == (told["items"],)
    assert {entry.path for entry in open_artifact(tmp_path / "out").files} == {"left_out.csv", "recommendation.json"}


def test_events_of_another_data_set_are_one_line(served: Served, tmp_path: Path) -> None:
    from components.download.step import run as download
    from components.steps.catalog import STEPS

    download(STEPS["download"].of(dataset="events", synthetic_users=20, synthetic_items=30), raw=tmp_path / "raw")
    said = "its lists come from raw files of amazon_reviews, and these are of events"
    with pytest.raises(KfrecError, match=said):
        run(RecommendParameters(MODEL), raw=tmp_path / "raw", lists=tmp_path / "out")
