"""Items of some kinds of events, such as what was bought, are not listed again; those of other kinds may be."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from components.artifacts import open_artifact
from components.download.step import run as download
from components.preprocess.step import run as preprocess
from components.recommend.step import run as recommend
from components.steps.catalog import STEPS, RecommendParameters, TfrecordParameters
from components.tfrecord.step import run as tfrecord
from pipelines.cli import main
from tests.conftest import MakeOnce
from tests.fakes.reading_model import make_reading_model
from tests.pipelines.conftest import run_in_process
from tests.predict.conftest import INPUTS, REGISTERED, Served

USERS, ITEMS = 12, 15


@pytest.fixture(scope="module")
def shop(made_once: MakeOnce) -> Path:
    """Raw events of views and purchases, and a model of theirs."""

    def make(folder: Path) -> None:
        random = np.random.default_rng(1)
        rows = USERS * 10
        user, item = np.repeat(np.arange(USERS), 10), random.integers(0, ITEMS, rows)
        kind = np.where(random.random(rows) < 0.4, "purchase", "view")
        (folder / "given").mkdir()
        events = pd.DataFrame({"user": user, "item": item, "timestamp": np.arange(rows), "event": kind})
        events.assign(user="u" + events["user"].astype(str), item="i" + events["item"].astype(str)).to_csv(
            folder / "given" / "events.csv", index=False
        )
        download(STEPS["download"].of(dataset="events", source=str(folder / "given")), raw=folder / "raw")
        options = dict(dataset="events", workers=1, split="last_item", shortest_sequence_for_user=3)
        preprocess(
            STEPS["preprocess"].of(**options, context_kinds="view"), raw=folder / "raw", parquet=folder / "parquet"
        )
        tfrecord(TfrecordParameters(workers=1), parquet=folder / "parquet", tfrecord=folder / "tfrecord")
        make_reading_model(folder / "model", folder / "tfrecord", INPUTS)

    return made_once("shop-of-kinds", make)


def things(shop: Path, kind: str) -> dict[str, set[str]]:
    """The items of each user in events of a kind."""
    events = pd.read_csv(shop / "given" / "events.csv")
    found: dict[str, set[str]] = defaultdict(set)
    for user, item in events[events["event"] == kind][["user", "item"]].itertuples(index=False):
        found[user].add(item)
    return found


def test_what_was_bought_is_never_listed_and_what_was_viewed_is(shop: Path, tmp_path: Path) -> None:
    words = [f"--model={shop / 'model'}", f"--events={shop / 'raw'}", "--top=99", "--keep-seen"]
    output, excluded = tmp_path / "lists.csv", tmp_path / "not.csv"
    excluded.write_text("user,item\nu0,i0\nu1,i1\n")
    given = ["recommend", *words, f"--output={output}", "--never-again=purchase", f"--exclude={excluded}"]
    assert main([*given, "--all"]) == 0
    lists = pd.read_csv(output).groupby("user")["item"].agg(set)
    every, bought, viewed = {f"i{item}" for item in range(ITEMS)}, things(shop, "purchase"), things(shop, "view")
    left_out = {f"u{user}": bought[f"u{user}"] | ({f"i{user}"} if user < 2 else set()) for user in range(USERS)}
    assert {user: lists[user] for user in lists.index} == {user: every - items for user, items in left_out.items()}
    assert any(viewed[user] & lists[user] for user in lists.index)
    assert main([*given, "u5"]) == 0
    assert set(pd.read_csv(output)["item"]) == every - bought["u5"]


def test_the_step_knows_the_same_rule(shop: Path, tmp_path: Path) -> None:
    output = tmp_path / "lists.csv"
    parameters = RecommendParameters(str(shop / "model"), str(output), top=99, keep_seen="true", never_again="purchase")
    recommend(parameters, raw=shop / "raw", lists=tmp_path / "out")
    lists, bought = pd.read_csv(output).groupby("user")["item"].agg(set), things(shop, "purchase")
    assert all(not lists[user] & bought[user] for user in lists.index) and len(lists) == USERS


@pytest.mark.slow
def test_the_pipeline_fetches_the_events_and_lists_for_their_users(shop: Path, tmp_path: Path) -> None:
    values = {
        "source": shop / "given", "model_version": shop / "model", "deliver_to": tmp_path / "lists.csv", "top": 2,
        "never_again": "purchase", "keep_seen": "true",
    }  # fmt: skip
    words = ["--pipeline=recommendation", "--dataset=events", *(f"--set={name}={values[name]}" for name in values)]
    done = run_in_process("--workdir", str(tmp_path / "runs"), *words)
    assert done.status == 0, done.err[-3000:]
    made, lists = open_artifact(done.out.splitlines()[-1]), pd.read_csv(tmp_path / "lists.csv")
    assert (made.step, made.rows["users"], made.rows["items"]) == ("recommend", lists["user"].nunique(), len(lists))
    assert made.rows["users"] == USERS


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ("purchas", "--never-again purchas: no event is of the kind 'purchas'; column event has "),
        ("view,rent", "--never-again view,rent: no event is of the kind 'rent'"),
    ],
)
def test_a_kind_that_no_event_has_is_one_line(
    kinds: str, said: str, shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"--model={shop / 'model'}", f"--events={shop / 'raw'}", f"--output={tmp_path / 'lists.csv'}", "--all"]
    assert main(["recommend", *words, f"--never-again={kinds}"]) == 2
    assert said in capsys.readouterr().err


def test_data_without_kinds_and_records_are_one_line(
    served: Served, store: str, shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["recommend", "--all", f"--output={tmp_path / 'lists.csv'}", "--never-again=purchase"]
    assert main([*words, f"--model={REGISTERED}@champion", f"--events={served.folder / 'raw'}"]) == 2
    assert "--never-again purchase: events of amazon_reviews have no kinds" in capsys.readouterr().err
    assert main([*words, f"--model={shop / 'model'}", f"--data={shop / 'tfrecord'}"]) == 2
    assert "kinds are those of raw events; name them with --events" in capsys.readouterr().err
