"""Parts of tables in checkpoints: written by some ranks, read by others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.errors import KfrecError
from components.models.layers.dense import Dense
from components.models.layers.weights import Weights
from components.models.optimizers.groups import Optimizers
from components.models.tables.placement import sharding_of
from components.train.loop.averages import Averages
from components.train.loop.checkpoint import (
    Checkpoints,
    described,
    find_checkpoint,
    read_progress,
    require_same_model,
)
from components.train.loop.loss_scale import LossScale
from components.train.loop.progress import TrainingProgress
from components.train.loop.ranks import Alone
from components.train.loop.state import VARIABLES, name_in, named_state_of
from tests.train.loop.sharded import NAMES, Small, built, training

ROWS, COLUMNS = dict.fromkeys(NAMES, "rows"), dict.fromkeys(NAMES, "columns")
MIXED = {"tables/city": "rows", "tables/tags": "rank", "embedding_tables": "columns"}
# Number of ranks, and where their tables are.
Group = tuple[int, Mapping[str, str]]


class Rank(Alone):
    """One of several ranks that never meet."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size


def member(rank: int, group: Group, folder: Path, seed: float) -> tuple[Small, Optimizers, Checkpoints]:
    """A rank's model and optimizer; each value of the whole state is its position plus ``seed``."""
    ranks = Rank(rank, group[0])
    model = built(ranks, group[1])
    _, optimizers, scale = training(model, ranks, "adam")
    for number, variable in enumerate([*named_state_of(model).values(), *optimizers.state.values()]):
        sharding = sharding_of(variable)
        shape = sharding.shape if sharding is not None else variable.shape.as_list()
        whole = np.arange(np.prod(shape, dtype=int), dtype=float).reshape(shape) + seed + 1000 * number
        if sharding is not None:
            part = sharding.mine
            whole = whole[part.first :: part.step, part.begin : part.end][: part.rows]
        variable.assign(tf.cast(whole, variable.dtype))
    averages = Averages(model.trainable_variables, 0.0)
    return model, optimizers, Checkpoints(folder, model, optimizers, scale, averages, rank, lambda prefix, best: None)


def saved(group: Group, folder: Path, step: int = 5) -> str:
    """Saves a checkpoint as the ranks of a group do."""
    members = [member(rank, group, folder, 0.25) for rank in range(group[0])]
    model, _, first = members[0]
    progress = TrainingProgress(1, 30, 10, "adam", described(model), first.layout, step=step)
    for _, _, checkpoints in members:
        checkpoints.save_parts(progress)
    kept = first.save(progress, [])
    for _, _, checkpoints in members:
        checkpoints.forget_parts(kept)
    return find_checkpoint(str(folder))


def restored(rank: int, group: Group, folder: Path, prefix: str) -> tuple[Small, Optimizers]:
    model, optimizers, checkpoints = member(rank, group, folder / "other", 0.5)
    checkpoints.restore(prefix, read_progress(prefix))
    return model, optimizers


def own(rank: int, variables: Mapping[str, tf.Variable]) -> dict[str, tf.Variable]:
    """Those that a rank reads: the first one all, the others their shards, since the first broadcasts the rest."""
    return {name: each for name, each in variables.items() if not rank or sharding_of(each) is not None}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("writers", "readers"),
    [
        pytest.param((3, ROWS), (2, ROWS), id="rows-3-2"),
        pytest.param((2, ROWS), (4, COLUMNS), id="rows-2-columns-4"),
        pytest.param((4, COLUMNS), (2, MIXED), id="columns-4-mixed-2"),
        pytest.param((2, MIXED), (1, {}), id="mixed-2-one"),
        pytest.param((1, {}), (3, ROWS), id="one-rows-3"),
        pytest.param((2, {}), (2, MIXED), id="whole-mixed"),
    ],
)
def test_any_ranks_read_what_other_ranks_wrote(writers: Group, readers: Group, tmp_path: Path) -> None:
    prefix = saved(writers, tmp_path)
    for rank in range(readers[0]):
        found = restored(rank, readers, tmp_path, prefix)
        expected = member(rank, readers, tmp_path / "expected", 0.25)
        for name, variable in own(rank, {**named_state_of(found[0]), **found[1].state}).items():
            wanted = {**named_state_of(expected[0]), **expected[1].state}[name]
            np.testing.assert_array_equal(variable.numpy(), wanted.numpy(), name)


def test_the_first_ranks_file_holds_no_sharded_table(tmp_path: Path) -> None:
    prefix = saved((2, ROWS), tmp_path)
    held = [name for key, _ in tf.train.list_variables(prefix) if (name := name_in(key, VARIABLES))]
    assert "model/dense/kernel" in held and "optimizer/dense/kernel/v" in held
    assert not any("tables" in name for name in held)
    assert len(list(tmp_path.glob("ckpt-5.table-*.npy"))) == 2 * 3 * len(NAMES)  # of each a weight and two moments


def test_parts_go_with_their_checkpoint(tmp_path: Path) -> None:
    members = [member(rank, (2, ROWS), tmp_path, 0.0) for rank in range(2)]
    for step in range(1, 6):
        progress = TrainingProgress(1, 30, 10, "adam", described(members[0][0]), members[0][2].layout, step=step)
        for _, _, checkpoints in members:
            checkpoints.save_parts(progress)
        kept = members[0][2].save(progress, [])
        for _, _, checkpoints in members:
            checkpoints.forget_parts(kept)
    assert {file.name.partition(".")[0] for file in tmp_path.glob("*.npy")} == {"ckpt-3", "ckpt-4", "ckpt-5"}


def test_a_part_that_is_missing_is_one_line(tmp_path: Path) -> None:
    prefix = saved((2, ROWS), tmp_path)
    (tmp_path / "ckpt-5.table-0.1.npy").unlink()
    with pytest.raises(
        KfrecError, match=r"ckpt-5.table-0.1.npy: missing, so the checkpoint is not complete here; fetch"
    ):
        restored(0, (1, {}), tmp_path, prefix)


def test_a_part_that_was_cut_off_is_one_line(tmp_path: Path) -> None:
    prefix = saved((2, ROWS), tmp_path)
    file = tmp_path / "ckpt-5.table-0.1.npy"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(KfrecError, match=r"ckpt-5.table-0.1.npy: damaged \(.*\); fetch the whole checkpoint"):
        restored(0, (1, {}), tmp_path, prefix)


def test_divided_and_whole_tables_describe_the_same_model(tmp_path: Path) -> None:
    model, _, checkpoints = member(0, (2, ROWS), tmp_path, 0.0)
    progress = TrainingProgress(1, 30, 10, "adam", described(model), checkpoints.layout)
    require_same_model("ckpt-5", progress, built(Alone(), {}))


def test_a_checkpoint_names_variables_whatever_object_holds_them(tmp_path: Path) -> None:
    prefix = saved((1, {}), tmp_path)

    class Renamed(tf.Module):
        """The model's layers as other attributes, in another order."""

        def __init__(self, model: Small) -> None:
            super().__init__()
            self.layers = [model.dense, model.fused, model.embed]

    model, optimizers, _ = member(0, (1, {}), tmp_path / "other", 0.5)
    renamed: Any = Renamed(model)
    scale, averages = LossScale(False), Averages(model.trainable_variables, 0.0)
    checkpoints = Checkpoints(tmp_path / "other", renamed, optimizers, scale, averages, 0, lambda prefix, best: None)
    checkpoints.restore(prefix, read_progress(prefix))
    expected, _, _ = member(0, (1, {}), tmp_path / "expected", 0.25)
    for name, variable in named_state_of(renamed).items():
        np.testing.assert_array_equal(variable.numpy(), named_state_of(expected)[name].numpy(), name)


def test_two_variables_of_one_name_are_one_line(tmp_path: Path) -> None:
    model = built(Alone(), {})
    model.other = Dense(Weights(3).scope("dense"), 2, 1)
    _, optimizers, scale = training(model, Alone(), "adam")
    averages = Averages(model.trainable_variables, 0.0)
    with pytest.raises(
        KfrecError, match=r"model Small: two variables are called dense/kernel, .*Weights\(seed\).scope"
    ):
        Checkpoints(tmp_path, model, optimizers, scale, averages, 0, lambda prefix, best: None)


def test_a_checkpoint_without_names_is_one_line(tmp_path: Path) -> None:
    prefix = saved((1, {}), tmp_path)
    body = json.loads(tf.train.load_checkpoint(prefix).get_tensor("state/.ATTRIBUTES/py_state"))

    class Earlier(tf.train.experimental.PythonState):
        """The progress as an earlier kfrec wrote it."""

        def serialize(self) -> str:
            return json.dumps({name: value for name, value in body.items() if name != "format"})

        def deserialize(self, string_value: str) -> None:
            raise NotImplementedError

    tf.train.Checkpoint(state=Earlier()).write(str(tmp_path / "earlier"))
    with pytest.raises(KfrecError, match=r"earlier: was written by an earlier kfrec, .* by name; train again"):
        read_progress(str(tmp_path / "earlier"))


@pytest.mark.slow
@pytest.mark.parametrize(("writers", "readers"), [((1, {}), (1, {})), ((2, ROWS), (4, COLUMNS)), ((2, MIXED), (1, {}))])
def test_weights_and_moments_continue_under_a_schedule_of_their_own(
    writers: Group, readers: Group, tmp_path: Path
) -> None:
    prefix = saved(writers, tmp_path)
    progress = read_progress(prefix)
    for rank in range(readers[0]):
        model, optimizers, checkpoints = member(rank, readers, tmp_path / "other", 0.5)
        drawn = optimizers.state["0/steps"].numpy()
        checkpoints.continue_from(prefix, progress, {})
        expected = member(rank, readers, tmp_path / "expected", 0.25)
        for name, variable in own(rank, {**named_state_of(model), **optimizers.state}).items():
            wanted = drawn if name == "0/steps" else {**named_state_of(expected[0]), **expected[1].state}[name].numpy()
            np.testing.assert_array_equal(variable.numpy(), wanted, name)
    assert "0/updates" in optimizers.state
