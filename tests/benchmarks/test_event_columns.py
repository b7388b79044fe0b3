"""What columns of events bring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import event_columns, trained
from benchmarks.event_columns import WITHOUT, Variant, cases, measure, movielens, table
from components.feature_spec import Channel, load_feature_spec


def test_the_table_compares_the_samples_of_the_same_users() -> None:
    users = np.arange(400) // 2
    found = {WITHOUT: (users, (users < 50).astype(float)), "device": (users, (users < 70).astype(float))}
    lines = table([found, found]).splitlines()
    assert lines[0] == "800 test samples of 200 users"
    assert lines[4].startswith("| without | 0.2500 (") and lines[5].startswith("| device | 0.3500 (")
    assert "| +0.1000 (+0.0" in lines[5] and lines[5].endswith("| +0.1000, +0.1000 |")


def test_ratings_have_the_columns_of_their_users_and_movies(tmp_path: Path) -> None:
    (tmp_path / "ml-100k.inter").write_text(
        "user_id:token\titem_id:token\trating:float\ttimestamp:float\n7\t2\t3\t7200\n8\t1\t5\t3599\n"
    )
    (tmp_path / "ml-100k.user").write_text(
        "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n7\t24\tM\twriter\t1\n8\t53\tF\tother\t2\n"
    )
    (tmp_path / "ml-100k.item").write_text(
        "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n"
        "1\tToys\t1995\tComedy\n2\tA\t\tDrama War\n"
    )
    first, second = movielens(tmp_path).to_pylist()
    assert first == {"user": 8, "item": 1, "timestamp": 3599, "rating": 5, "age": 53, "occupation": "other",
                     "category": "Comedy", "hour": 0}  # fmt: skip
    assert (second["user"], second["category"], second["hour"]) == (7, "Drama War", 2)


@pytest.mark.slow
def test_a_small_shop_trains_with_the_columns_of_each_variant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, in_this_process: Callable[..., None]
) -> None:
    for module in (event_columns, trained):
        monkeypatch.setattr(module, "run_step", in_this_process)
    monkeypatch.setattr(event_columns, "USERS", 400)
    monkeypatch.setattr(event_columns, "_MODEL", {**event_columns._MODEL, "epochs": 1, "patience": 0})
    case = cases(None)["purchases"]
    both = Variant(["event"], {"kind_weights": "view=0.2", "weighted_loss": True})
    found = measure(replace(case, variants={WITHOUT: Variant(), "both": both}), 1, tmp_path / "1")
    assert list(found) == [WITHOUT, "both"] and len(found["both"][0]) > 20
    specs = [load_feature_spec(tmp_path / "1" / f"model_{number}_1") for number in range(2)]
    assert [each.channels.get(Channel.EVENTS) for each in specs] == [None, ("event_event_sequence",)]
    assert [Channel.WEIGHT in each.channels for each in specs] == [False, True]
