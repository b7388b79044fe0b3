"""The description beside an exported SavedModel; whole tables on the first rank, from parts on simulated ranks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import tensorflow as tf

from components.models.tables.placement import sharding_of
from components.scoring.model import SIGNATURE
from components.scoring.signature import read_signature
from components.train.export import copy_gathered, save, sharded_bytes, write_tables
from components.train.loop.ranks import Alone
from components.train.loop.state import named_state_of
from tests.models.tables.simulated import on_simulated
from tests.train.loop.sharded import NAMES, built

MIXED = {"tables/city": "rows", "tables/tags": "rank", "embedding_tables": "columns"}


def test_features_keep_their_capital_letters(tmp_path: Path) -> None:
    @tf.function(autograph=False)
    def serve(**features: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"probability": features["Unit_Price"] + features["city"]}

    shapes = {name: tf.TensorSpec([None], tf.float32, name) for name in ("city", "Unit_Price")}
    save(tf.Module(), {SIGNATURE: serve.get_concrete_function(**shapes)}, tmp_path / "saved_model")
    assert read_signature(tmp_path / "saved_model").inputs == ("Unit_Price", "city")


def test_the_first_rank_receives_whole_tables() -> None:
    other = built(Alone(), {})
    for variable in other.variables:
        variable.assign(np.zeros(variable.shape))

    def copy(ranks: object) -> None:
        copy_gathered(built(ranks, MIXED), other if ranks.rank == 0 else None, ranks)  # type: ignore[attr-defined, arg-type]

    on_simulated(4, copy)
    for found, expected in zip(other.variables, built(Alone(), {}).variables, strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_tables_are_written_one_by_one(tmp_path: Path) -> None:
    on_simulated(2, lambda ranks: write_tables(built(ranks, MIXED), tmp_path / "tables", ranks))  # type: ignore[arg-type]
    spec = json.loads((tmp_path / "tables" / "tables.json").read_text())
    dense = np.load(tmp_path / "tables" / "dense.npz")
    model = built(Alone(), {})
    assert set(spec["tables"]) == {"tables/city", "tables/tags", "embedding_tables"}
    for name, variable in named_state_of(model).items():
        if name in spec["tables"]:
            described = spec["tables"][name]
            assert [described["rows"], described["width"]] == variable.shape.as_list()
            found = np.load(tmp_path / "tables" / described["file"])
        else:
            found = dense[name]
        np.testing.assert_array_equal(found, variable.numpy())
    assert spec["features"]["tags"] == {"table": "tables/tags", "first_row": 0, "rows": 12}


def test_only_sharded_tables_count() -> None:
    def size(ranks: object) -> int:
        model = built(ranks, MIXED)  # type: ignore[arg-type]
        assert sum(sharding_of(variable) is not None for variable in model.variables) == len(NAMES) - 1
        return sharded_bytes(model)

    # city 41 x 8, tags 12 x 8, one and two 31 + 7 rows x 4
    assert on_simulated(2, size) == [4 * (41 * 8 + 12 * 8 + 38 * 4)] * 2
