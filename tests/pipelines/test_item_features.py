"""SASRec with what is known of items in their vectors, from a run to lists with items that are newer than it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines.cli import main
from tests.pipelines.conftest import Run

DAY, DAYS, USERS, ITEMS = 86_400, 16, 60, 10
SMALL = (
    "item_dim=16", "feed_forward_dim=16", "attention_layers=1", "lr=0.01", "epochs=12", "global_batch_size=64",
    "state_dropout=0.1", "max_sequence_length=10", "shortest_sequence_for_user=3", "catalogue_users=20",
    "bootstrap_samples=100", "preprocess_workers=1", "tfrecord_workers=1", "test_reviews=0.1", "train_seed=1",
    "refit=false", "id_dropout=0.3",
)  # fmt: skip


def events(column: str) -> str:
    """Every second user chooses lamps, the others chairs, as a column tells."""
    random = np.random.default_rng(1)
    lines = [f"user,item,timestamp,{column}"]
    for user in range(USERS):
        category = ("lamps", "chairs")[user % 2]
        for day in range(DAYS):
            item = f"{category}{random.integers(ITEMS)}"
            lines.append(f"u{user},{item},{1_700_000_000 + day * DAY + user},{category}")
    return "\n".join(lines) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "setting", "column"),
    [
        ("sasrec", "item_features=categories", "category"),
        ("sasrec", "item_columns=title", "title"),
        ("sasrec_knn", "item_columns=title", "title"),
    ],
)
def test_new_items_are_listed_for_those_who_like_what_they_are(
    model: str, setting: str, column: str, in_process: Callable[..., Run], tmp_path: Path
) -> None:
    source, output = tmp_path / "source", tmp_path / "lists.csv"
    source.mkdir()
    (source / "events.csv").write_text(events(column))
    words = [word for value in (*SMALL, setting) for word in ("--set", value)]
    run = in_process(
        tmp_path / "runs", "--model", model, "--dataset", "events", "--source", str(source), *words
    ).summary
    stock = tmp_path / "stock.csv"
    known = [f"{category}{item},{category}" for category in ("lamps", "chairs") for item in range(ITEMS)]
    stock.write_text("\n".join([f"item,{column}", *known, "newest,lamps", "latest,chairs"]) + "\n")
    given = ["--model", run["artifacts"]["model"], "--events", str(source), "--candidates", str(stock)]
    words = ["--all", "--keep-seen", "--top", "22", "--output", str(output), "--workdir", str(tmp_path / "runs")]
    assert main(["recommend", *words, *given]) == 0
    lists = pd.read_csv(output)
    assert set(lists.query("flag == 'new'")["item"]) == {"newest", "latest"}
    ranks = lists.pivot(index="user", columns="item", values="rank")
    likes_lamps = ranks.index.str[1:].astype(int) % 2 == 0
    assert ((ranks["newest"] < ranks["latest"]) == likes_lamps).mean() > 0.9
    # Among those of its category, not behind all others.
    assert (ranks["newest"][likes_lamps] <= 11).mean() > 0.9
