"""The users of a split whose unknown users share an id."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.feature_spec import Channel, Feature, FeatureSpec, Vocabulary
from components.scoring.columns import KeptColumns
from components.tasks import Kept
from components.tasks.click import TASK, USER
from tests.fakes.small_histories import FIRST_ID, ITEMS, LENGTH, UNKNOWN, category_of, specification


def growing(users: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Samples of unknown users from their first item on, a chosen and a drawn target each, and whose they are."""
    random = np.random.default_rng(seed)
    rows = []
    starts = random.permutation(ITEMS * ITEMS)[:users]  # no two users begin with the same two items
    for user, start in enumerate(starts.tolist()):
        chosen = [start // ITEMS, start % ITEMS, *random.integers(0, ITEMS, random.integers(0, LENGTH - 3))]
        for length in range(1, len(chosen)):
            history = np.zeros(LENGTH, np.int64)
            history[-length:] = FIRST_ID + np.array(chosen[:length])
            rows.append((user, 1, history, FIRST_ID + chosen[length]))
            rows.append((user, 0, history, FIRST_ID + random.integers(ITEMS)))
    order = random.permutation(len(rows))
    owners, labels, histories, targets = (np.array(column)[order] for column in zip(*rows, strict=True))
    return {
        "label": labels, "uid": np.full(len(rows), UNKNOWN), "item_trgt": targets, "cat_trgt": category_of(targets),
        "item_pos": histories, "cat_pos": category_of(histories),
    }, owners  # fmt: skip


def test_the_first_sample_of_an_unknown_user_is_in_the_cluster_of_the_later_ones() -> None:
    samples, owners = growing(users=200, seed=1)
    columns = KeptColumns(specification(), TASK.kept)
    for begin in range(0, len(owners), 64):
        columns.add({name: samples[name][begin : begin + 64] for name in columns.features})
    users = columns.arrays()[USER]
    assert len(np.unique(users)) == 200
    # Of a drawn target after one item, nothing but that item tells the user.
    told = (samples["label"] > 0) | (np.count_nonzero(samples["item_pos"], axis=1) > 1)
    assert len({*zip(owners[told].tolist(), users[told].tolist(), strict=True)}) == 200
    oldest = samples["item_pos"][np.arange(len(owners)), np.argmax(samples["item_pos"] > 0, axis=1)]
    began = dict(zip(users[told].tolist(), oldest[told].tolist(), strict=True))
    assert (oldest[~told] == [began[user] for user in users[~told].tolist()]).all()
    assert np.unique(users[~told], return_counts=True)[1].tolist() == [1] * 200


@pytest.mark.parametrize("counted", [True, False])
def test_a_trained_column_counts_the_vocabulary_and_has_0_for_what_it_lacks(counted: bool, tmp_path: Path) -> None:
    (tmp_path / "vocabulary").mkdir()
    values = {"id": pa.array([3, 4], pa.int32()), "value": ["a", "b"]}
    pq.write_table(pa.table(values | ({"reviews": [7, 0]} if counted else {})), tmp_path / "vocabulary/item.parquet")
    listed = Vocabulary("item", "vocabulary/item.parquet", 2, ("item",)).to_dict()
    feature, metadata = Feature("item", "int64", 4), {"vocabulary": {"item": listed}}
    spec = FeatureSpec({"item": feature}, {}, {Channel.TARGET: ("item",)}, metadata, tmp_path)
    columns = KeptColumns(spec, [Kept("popularity", Channel.TARGET, trained=True)])
    columns.add({"item": np.array([4, 2, 3, 99])})
    assert columns.arrays()["popularity"].tolist() == ([0, 0, 7, 0] if counted else [1, 0, 1, 0])
