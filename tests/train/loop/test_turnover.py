"""Rows that come and go: fresh weights and moments for these, and every bit as it was for all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from components.contract import LOGIT
from components.errors import KfrecError
from components.feature_spec import Channel, Feature, FeatureSpec
from components.feature_spec.living import Living, Rules
from components.models.layers.linear import Linear
from components.models.layers.weights import Weights
from components.models.model import click_loss
from components.models.names import name_of
from components.models.optimizers import make_optimizer
from components.models.optimizers.groups import OptimizerGroup, Optimizers
from components.models.tables.placement import sharding_of
from components.tasks.binary.streaming import BinaryMetrics
from components.train.loop.averages import Averages
from components.train.loop.checkpoint import Checkpoints, described, find_checkpoint, read_progress
from components.train.loop.loss_scale import LossScale
from components.train.loop.progress import TrainingProgress
from components.train.loop.ranks import Alone
from components.train.loop.training_step import Inputs, TrainingStep
from components.train.loop.turnover import changed_rows, start_from_categories
from tests.models.tables.simulated import Simulated, on_simulated
from tests.train.building import build_model
from tests.train.loop import sharded
from tests.train.loop.test_warm_start import PARAMETERS, data


def test_rows_change_where_an_id_stands_for_another_value(tmp_path: Path) -> None:
    old = data(tmp_path / "old", uid=["ann", "bob"], item=["i1", "i2", "i3"], cat=["x", "y"])
    new = data(tmp_path / "new", uid=["ann", "eve"], item=["i1", "i4"], cat=["x", "y"])
    model = build_model(PARAMETERS, new, seed=1)
    assert not changed_rows(model, new, new)
    rows = changed_rows(model, new, old)
    wanted: dict[str, list[int]] = {}
    for feature, ids in (("uid", [4]), ("item_trgt", [4])):
        table = model.tables[feature]
        # Item 5 was i3, and no row of the smaller table.
        wanted.setdefault(name_of(table.variable), []).extend(table.begin + each for each in ids)
    assert {name: each.tolist() for name, each in rows.items()} == {k: sorted(v) for k, v in wanted.items()}


def with_categories(spec: FeatureSpec, categories: list[int]) -> FeatureSpec:
    """With the category of each item, from id 3 on."""
    known = pa.table(
        {"item": np.arange(3, 3 + len(categories), dtype=np.int32), "cat": pa.array(categories, pa.int32())}
    )
    pq.write_table(known, spec.folder / "vocabulary" / "catalogue.parquet")
    return replace(spec, metadata={**spec.metadata, "encoding": {"dataset": "events"}})


def test_an_admitted_item_may_start_from_the_mean_of_its_category(tmp_path: Path) -> None:
    items = ["i1", "i2", "i3", "new1", "new2", "new3"]
    spec = with_categories(data(tmp_path, uid=["ann"], item=items, cat=["x", "y", "z"]), [3, 3, 4, 3, 3, 5])
    model = build_model(PARAMETERS, spec, seed=1)
    table = model.tables["item_trgt"]
    before = table.variable.numpy()
    admitted = {name_of(table.variable): table.begin + np.array([6, 7, 8])}
    start_from_categories(model, spec, admitted)
    after = table.variable.numpy()
    of_x = before[table.begin + 3 : table.begin + 5].mean(0)
    np.testing.assert_allclose(after[table.begin + 6 : table.begin + 8], np.stack([of_x, of_x]), rtol=1e-6)
    # No other item has the category of the last one.
    untouched = np.delete(np.arange(len(before)), [table.begin + 6, table.begin + 7])
    np.testing.assert_array_equal(after[untouched], before[untouched])
    start_from_categories(model, spec, {})
    np.testing.assert_array_equal(table.variable.numpy(), after)


def test_data_without_categories_of_items_are_refused_in_one_line(tmp_path: Path) -> None:
    spec = data(tmp_path, uid=["ann"], item=["i1"], cat=["x"])
    with pytest.raises(KfrecError, match=r"admitted_rows=category: the data have no categories.*; set admitted_rows"):
        start_from_categories(build_model(PARAMETERS, spec, seed=1), spec, {})


KINDS = {
    1: {},
    2: {"tables/city": "rows", "tables/tags": "rank", "embedding_tables": "columns"},
    4: {"tables/city": "columns", "tables/kind": "rows", "tables/tags": "columns", "embedding_tables": "rows"},
}
ROWS = {"tables/city": np.array([0, 7, 40]), "embedding_tables": np.array([3, 11]), "tables/kind": np.array([2])}


def checkpoints_of(rank: Simulated, folder: Path, optimizer: str) -> tuple[Any, Optimizers, Checkpoints]:
    """A model of all kinds of tables, with moments."""
    model = sharded.built(rank, KINDS[rank.size])  # type: ignore[arg-type]
    variables = model.trainable_variables
    optimizers = Optimizers([OptimizerGroup(make_optimizer(optimizer, 0.1), variables)], variables)
    scale, averages = LossScale(False), Averages(variables, 0.0)
    return model, optimizers, Checkpoints(folder, model, optimizers, scale, averages, rank.rank, lambda *_: None)


def state(model: Any, optimizers: Optimizers) -> dict[str, tf.Variable]:
    return {name_of(variable): variable for variable in model.variables} | dict(optimizers.state)


def part_of(variable: tf.Variable, whole: np.ndarray) -> np.ndarray:
    sharding = sharding_of(variable)
    if sharding is None:
        return whole
    part = sharding.mine
    return whole[part.ids(0, part.rows), part.begin : part.end]


@pytest.mark.parametrize(("saved", "restored"), [(1, 1), (2, 1), (1, 2), (2, 4)])
def test_weights_and_moments_move_together_on_any_number_of_ranks(saved: int, restored: int, tmp_path: Path) -> None:
    def noise(name: str, shape: tuple[int, ...]) -> np.ndarray:
        return np.random.default_rng(sum(map(ord, name))).random(shape).astype(np.float32)

    def save(rank: Simulated) -> dict[str, tuple[int, ...]]:
        model, optimizers, checkpoints = checkpoints_of(rank, tmp_path, "adam")
        shapes = {}
        for name, variable in state(model, optimizers).items():
            if variable.dtype != tf.float32:
                continue
            sharding = sharding_of(variable)
            shapes[name] = tuple(variable.shape) if sharding is None else sharding.shape
            variable.assign(part_of(variable, noise(name, shapes[name])))
        progress = TrainingProgress(3, 40, 1, optimizers.description, described(model), checkpoints.layout, step=1)
        checkpoints.save_parts(progress)
        if rank.rank == 0:
            checkpoints.save(progress, [])
        return shapes

    shapes = on_simulated(saved, save)[0]

    def check(rank: Simulated) -> int:
        model, optimizers, checkpoints = checkpoints_of(rank, tmp_path / "later", "adam")
        fresh = {name: variable.numpy() for name, variable in state(model, optimizers).items()}
        prefix = find_checkpoint(str(tmp_path))
        checkpoints.continue_from(prefix, read_progress(prefix), ROWS)
        checked = 0
        for name, variable in state(model, optimizers).items():
            if name not in shapes or (rank.rank and sharding_of(variable) is None):
                continue  # the first rank hands out what is whole
            table = name if name in ROWS else name.rpartition("/")[0]
            mask = np.zeros(shapes[name], bool)
            mask[ROWS.get(table, [])] = True
            expected = np.where(part_of(variable, mask), fresh[name], part_of(variable, noise(name, shapes[name])))
            np.testing.assert_array_equal(variable.numpy(), expected, err_msg=name)
            if name != table:
                assert not variable.numpy()[part_of(variable, mask)].any()
            checked += int(mask.any())
        return checked

    # Three tables with two moments each, on the first rank at least.
    assert max(on_simulated(restored, check)) == 9


class Additive(tf.Module):
    """A weight for each id, from 0 on, where it does not matter which row it is; and a bias that all share."""

    def __init__(self, feature: Feature) -> None:
        super().__init__()
        self.linear = Linear(Weights(1), [feature], 0)
        self.tables = self.linear.embed.tables
        self.serving_features = (feature.name,)

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        return {LOGIT: self.linear(features, tf.zeros([0]))[:, 0]}

    loss_terms = click_loss


class Nights:
    """A training a night, each of which continues the last one's weights and moments with tonight's vocabulary."""

    def __init__(self, folder: Path, capacity: int, rules: Rules) -> None:
        self.folder, self.rules, self.night, self.evicted = folder, rules, 0, 0
        self.last: FeatureSpec | None = None
        self.living = Living.empty(np.zeros(0, np.uint32)).counted(
            np.zeros(0, np.uint32), np.zeros(0, np.int64), 0
        ).with_ids(np.zeros(0, np.uint32), np.zeros(0, np.int64), capacity)  # fmt: skip
        feature = Feature("item", "int64", capacity)
        self.model = Additive(feature)
        variables = self.model.trainable_variables
        self.optimizers = Optimizers([OptimizerGroup(make_optimizer("adam", 0.1), variables)], variables)
        signature = {name: tf.TensorSpec([None], tf.int32) for name in ("item", "label")}
        scale = LossScale(False)
        self.step = TrainingStep(
            self.model, self.optimizers, Alone(), BinaryMetrics(False), scale, Inputs(signature, {"label": tf.float32})
        )
        self.fresh = {name: variable.numpy() for name, variable in self.state.items()}
        self.checkpoints = Checkpoints(
            folder / "checkpoints", self.model, self.optimizers, scale, Averages(variables, 0.0), 0, lambda *_: None
        )

    @property
    def state(self) -> dict[str, tf.Variable]:
        return state(self.model, self.optimizers)

    def spec(self) -> FeatureSpec:
        """Tonight's specification, with tonight's vocabulary."""
        folder = self.folder / str(self.night)
        (folder / "vocabulary").mkdir(parents=True)
        ids, values = self.living.by_id()
        pq.write_table(pa.table({"id": ids, "value": values.astype(str)}), folder / "vocabulary" / "item.parquet")
        noted = {"vocabulary": {"item": {"file": "vocabulary/item.parquet", "unknown": 0, "features": ["item"]}}}
        features = {"item": Feature("item", "int64", self.living.capacity), "label": Feature("label", "bool")}
        return FeatureSpec(features, {}, {Channel.LABEL: ("label",), Channel.CATEGORICAL: ("item",)}, noted, folder)

    def train(self, values: np.ndarray, labels: np.ndarray) -> None:
        earlier = self.last
        self.night += 1
        seen, counts = np.unique(values, return_counts=True)
        self.living, turnover = self.living.counted(seen, counts, self.night).grown(self.rules)
        self.evicted += turnover.evicted
        self.last = self.spec()
        for name, variable in self.state.items():
            variable.assign(self.fresh[name])
        if earlier is not None:
            prefix = find_checkpoint(str(self.folder / "checkpoints"))
            afresh = changed_rows(self.model, self.last, earlier)
            self.checkpoints.continue_from(prefix, read_progress(prefix), afresh)
        known = dict(zip(*reversed([each.tolist() for each in self.living.by_id()]), strict=True))
        ids = np.array([known[value] for value in values.tolist()], np.int32)
        for rows in np.split(np.arange(len(ids)), 4):
            self.step.run({"item": tf.constant(ids[rows]), "label": tf.constant(labels[rows])})
        progress = TrainingProgress(
            3, 40, 4, self.optimizers.description, described(self.model), {}, step=4 * self.night
        )
        self.checkpoints.save(progress, [])

    def rows(self) -> dict[int, list[np.ndarray]]:
        """Weight and moments of each value."""
        ids, values = self.living.by_id()
        tables = [variable.numpy() for variable in self.state.values() if variable.shape.rank == 2]
        assert len(tables) == 3
        return {
            value: [table[row] for table in tables] for value, row in zip(values.tolist(), ids.tolist(), strict=True)
        }


@pytest.mark.slow
def test_thirty_nights_of_churn_leave_every_surviving_row_as_in_a_run_that_never_evicts(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    lives = Nights(tmp_path / "lives", 63, Rules(1, 3, evict_after=2, evict_share=0.2))
    keeps = Nights(tmp_path / "keeps", 223, Rules(1, 3, evict_after=10**6, evict_share=0.2))
    for night in range(1, 31):
        # A value is for sale for ten nights, and is seen in each of them.
        values = np.repeat(np.arange(5 * night, 5 * night + 50, dtype=np.uint32), 4)
        random.shuffle(values)
        labels = (random.random(len(values)) < 0.2 + 0.6 * (values % 2)).astype(np.int32)
        for nights in (lives, keeps):
            nights.train(values, labels)
        mine, theirs = lives.rows(), keeps.rows()
        assert mine.keys() >= set(values.tolist())
        for value, found in mine.items():
            for ours, other in zip(found, theirs[value], strict=True):
                np.testing.assert_array_equal(ours, other, err_msg=f"night {night}, value {value}")
    assert lives.evicted > 100 and keeps.evicted == 0
    assert len(theirs) == 195 and len(mine) <= 63
