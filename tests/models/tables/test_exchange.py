"""Look-ups of sharded tables, compared with NumPy's of the whole table."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from components.models.layers.weights import Weights
from components.models.tables.creation import PlacedTables, tables_made_by
from components.models.tables.exchange import gather
from components.models.tables.placement import COLUMNS, KINDS, RANK, ROWS, Placement, sharding_of
from tests.models.tables.simulated import Simulated, on_simulated

SHAPES = {"a": (50, 8), "b": (7, 8), "c": (2, 4)}
DIVIDED = [{"a": ROWS, "b": RANK, "c": COLUMNS}, {"a": COLUMNS, "b": ROWS, "c": RANK}, dict.fromkeys(SHAPES, ROWS)]


def ids(rank: int) -> list[np.ndarray]:
    """Of each table; the second rank asks for nothing."""
    random, batch = np.random.default_rng(rank), 0 if rank == 1 else 6
    shapes = ((batch,), (batch, 3), (batch,))
    return [random.integers(0, rows, shape) for (rows, _), shape in zip(SHAPES.values(), shapes, strict=True)]


def whole(name: str) -> np.ndarray:
    return Weights(1).uniform(name, SHAPES[name], 0.5).numpy()


def tables(peers: Simulated, kinds: dict[str, str]) -> list[tf.Variable]:
    """Each table where its kind says; those on one rank are on the last."""
    with tables_made_by(PlacedTables({n: Placement(kind, peers.size - 1) for n, kind in kinds.items()}, peers)):
        return [Weights(1).tables().uniform(name, shape, 0.5) for name, shape in SHAPES.items()]


def looked_up(peers: Simulated, kinds: dict[str, str]) -> tuple[list[np.ndarray], list[tuple], list[tf.Tensor]]:
    """What a rank finds, its parts, and the gradients of the sum of (1 + rank) * what is found."""
    made = tables(peers, kinds)
    with tf.GradientTape() as tape:
        found = gather(made, [tf.constant(values) for values in ids(peers.rank)])
        total = tf.add_n([tf.reduce_sum(values) * (1.0 + peers.rank) for values in found])
    parts = [(sharding_of(variable).mine, variable.numpy()) for variable in made]
    return [values.numpy() for values in found], parts, tape.gradient(total, made)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", DIVIDED)
@pytest.mark.parametrize("size", [2, 4])
def test_every_rank_finds_the_rows_it_asks_for_and_the_gradient_of_its_part_is_the_sum_over_all(
    kinds: dict[str, str], size: int
) -> None:
    for asking, (found, parts, gradients) in enumerate(on_simulated(size, lambda peers: looked_up(peers, kinds))):
        for number, (name, values, (part, held)) in enumerate(zip(SHAPES, found, parts, strict=True)):
            np.testing.assert_array_equal(values, whole(name)[ids(asking)[number]])
            mine = slice(part.first, None, part.step), slice(part.begin, part.end)
            np.testing.assert_array_equal(held, whole(name)[mine][: part.rows])
            expected = np.zeros(SHAPES[name])
            for rank in range(size):
                np.add.at(expected, ids(rank)[number].reshape(-1), 1.0 + rank)
            assert isinstance(gradients[number], tf.IndexedSlices)
            np.testing.assert_allclose(tf.convert_to_tensor(gradients[number]), expected[mine][: part.rows])


def test_a_row_travels_once_however_often_it_is_asked_for() -> None:
    def received(peers: Simulated) -> int:
        with tables_made_by(PlacedTables({"a": Placement(RANK, 0)}, peers)):
            table = Weights(1).tables().uniform("a", (50, 8), 0.5)
        gather([table], [tf.constant([[7, 7, 7], [9, 7, 9]])])
        return peers.received

    # The first rank receives two row numbers of the second, which receives two rows of eight floats.
    assert on_simulated(2, received) == [2, 16]


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_rows_are_drawn_as_the_whole_table(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("components.models.tables.creation._BLOCK_FLOATS", 24)
    made = on_simulated(2, lambda peers: tables(peers, dict.fromkeys(SHAPES, kind)))
    for variables in made:
        for name, variable in zip(SHAPES, variables, strict=True):
            sharding = sharding_of(variable)
            expected = whole(name)
            if sharding is not None:
                part = sharding.mine
                expected = expected[part.first :: part.step, part.begin : part.end][: part.rows]
            np.testing.assert_array_equal(variable.numpy(), expected)
