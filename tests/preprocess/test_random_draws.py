from __future__ import annotations

from pathlib import Path

import numpy as np

from components.random_draws import draws
from tests.datasets.amazon_reviews.raw import preprocess, random_reviews, raw_folder, samples

USERS = np.array([5, -7, 5], np.int64)
POSITIONS = np.array([1, 1, 2])
FIRST = np.array([0, 0, 0])


def test_a_draw_depends_on_seed_stream_user_position_and_number_only() -> None:
    together = draws(1, 0, USERS, POSITIONS, FIRST, 4)
    alone = draws(1, 0, USERS[1:2], POSITIONS[1:2], FIRST[1:2] + 2, 2)
    assert together[1, 2:].tolist() == alone[0].tolist()


def test_other_seeds_streams_users_and_positions_give_other_draws() -> None:
    base = draws(1, 0, USERS, POSITIONS, FIRST, 4)
    others = [draws(2, 0, USERS, POSITIONS, FIRST, 4), draws(1, 1, USERS, POSITIONS, FIRST, 4)]
    assert len(np.unique(np.concatenate([base, *others]))) == 36


def test_draws_are_uniform() -> None:
    users = np.arange(20_000, dtype=np.int64)
    values = draws(12345, 0, users, users % 7, users * 0, 10) % np.uint64(100)
    counts = np.bincount(values.ravel().astype(np.int64), minlength=100)
    # 200,000 draws in 100 cells: chi-square of 99 degrees of freedom, above 149 once in a thousand.
    assert ((counts - 2000) ** 2 / 2000).sum() < 149


def test_negatives_are_drawn_by_popularity(tmp_path: Path) -> None:
    reviews = random_reviews(users=400, items=20, seed=3)
    popular = [
        (user, "i0", time) if index % 2 else (user, item, time) for index, (user, item, time) in enumerate(reviews)
    ]
    raw = raw_folder(tmp_path / "raw", popular, {"i0": "x"})
    lengths = dict(max_sequence_length=10, negative_sequence_length=10)
    preprocess(raw, tmp_path / "parquet", shortest_sequence_for_user=2, **lengths)
    drawn = [item for row in samples(tmp_path / "parquet", "train") for item in row["neg_item_sequence"]]
    expected = np.bincount([int(item[1:]) for _, item, _ in popular], minlength=20) / len(popular)
    # The most popular item has id 3; some 40,000 draws put the share within 0.01.
    assert abs(np.mean(np.array(drawn) == 3) - expected[0]) < 0.01
    targets = [row["item"] for row in samples(tmp_path / "parquet", "train") if row["label"] == 0]
    assert abs(np.mean(np.array(targets) == 3) - expected[0]) < 0.03
