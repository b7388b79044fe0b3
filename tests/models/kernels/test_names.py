import itertools

import numpy as np
import pytest
import tensorflow as tf

from components.models.kernels import host, names
from components.models.kernels.host import host_kernels
from components.models.layers.embedding import FusedEmbedding
from components.models.layers.weights import Weights


@pytest.mark.parametrize("places", [[], [0, 1, 2], [2, 0, 1], [1, 0, 1, 2, 0, 1]])
def test_equal_places_are_found_in_their_order(places: list[int]):
    count = len(set(places))
    starts, members = names.grouped(np.array(places, np.int32), count)
    groups = [list(members[first:last]) for first, last in itertools.pairwise(starts)]
    assert groups == [[i for i, place in enumerate(places) if place == wanted] for wanted in range(count)]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("shape", "positions", "time_first"),
    [
        ((70,), slice(None), False),
        ((1, 5), slice(None), False),
        ((30, 7), slice(0, 5), False),
        ((30, 7), slice(5, None), True),
        ((30, 7), slice(0, 0), False),
        ((0, 4), slice(None), True),
    ],
)
def test_ids_name_the_rows_that_tensorflow_finds(
    shape: tuple[int, ...],
    positions: slice,
    time_first: bool,
    kind: type,
    threads: int,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(host, "threads", lambda: threads)
    embedding = FusedEmbedding(Weights(1), (10, 40, 3), width=16)
    random = np.random.default_rng(1)
    ids = [tf.constant(random.integers(-3, 50, shape).astype(kind)) for _ in range(2)]
    for first in (0, 1):
        expected = embedding.rows(ids, first, positions, time_first)

        @tf.function(autograph=False)
        def compute(*ids: tf.Tensor, first: int = first) -> tf.Tensor:
            with host_kernels():
                return embedding.rows(ids, first, positions, time_first)

        assert "PyFuncStateless" in {node.type for node in compute.get_concrete_function(*ids).graph.get_operations()}
        named = compute(*ids)
        assert (named.dtype, named.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(named, expected)
