"""Which gradients the ranks sum whole, and which they exchange as rows."""

from __future__ import annotations

import pytest
import tensorflow as tf

from components.errors import KfrecError
from components.parameters import build
from components.steps.catalog import worker_parameters
from components.train.loop.exchange import is_whole, sent_as_rows, sent_whole, touched_rows
from components.train.loop.ranks import Alone
from tests.train.loop import sharded
from tests.train.loop.building import OneOfTwo

BOOKS, HUGE, SMALL, DENSE = (1_317_340, 16), (10_000_000, 128), (2_331, 16), (100, 36)


@pytest.mark.parametrize(
    ("shape", "lazy", "touched", "ranks", "value_bytes", "expected"),
    [
        # 84.3 MB whole on 2 ranks; 560,000 rows of 68 bytes are 38.1 MB.
        (BOOKS, False, 560_000, 2, 4, False),
        # 147.5 MB whole on 8 ranks; rows go to 7 others: 266.6 MB.
        (BOOKS, False, 560_000, 8, 4, True),
        # The same ranks with small batches: 64,000 rows are 30.5 MB.
        (BOOKS, False, 64_000, 8, 4, False),
        # On 4 ranks 126.5 MB whole, 102.0 MB as rows; in half precision 63.2 MB whole.
        (BOOKS, False, 500_000, 4, 4, False),
        (BOOKS, False, 500_000, 4, 2, True),
        # Lazy Adam has to know the rows, whatever they cost.
        (BOOKS, True, 560_000, 64, 4, False),
        # 10.2 GB whole, 0.5 GB as rows even on 64 ranks.
        (HUGE, False, 16_384, 64, 4, False),
        # Finding the rows of a small table costs more than it saves.
        (SMALL, False, 1, 2, 4, True),
        (DENSE, False, None, 2, 4, True),
        # Not looked up by gather, so that nothing is known.
        (BOOKS, False, None, 8, 4, False),
    ],
)
def test_what_sends_fewer_bytes_is_chosen(
    shape: tuple[int, int], lazy: bool, touched: int | None, ranks: int, value_bytes: int, expected: bool
) -> None:
    assert is_whole(shape, lazy, touched, ranks, value_bytes=value_bytes) is expected


def test_bytes_count_as_on_a_ring() -> None:
    assert sent_whole((1000, 16), 4) == 2 * 3 / 4 * 64_000
    assert sent_as_rows(100, 16, 4, index_bytes=8) == 3 * 100 * 72


def test_rows_of_a_batch_are_counted_once_and_only_of_tables() -> None:
    model = sharded.built(Alone(), {})
    batch = {name: tf.constant(values) for name, values in sharded.batch(0).items()}
    labels = tf.cast(batch.pop("label"), tf.float32)
    found = dict(
        zip(
            (v.name for v in model.trainable_variables),
            touched_rows(model, list(model.trainable_variables), batch, {"label": labels}),
            strict=True,
        )
    )
    city = {int(id) if 0 <= id <= 40 else 0 for id in batch["city"].numpy()}
    (name,) = (name for name in found if "city" in name)
    assert found[name] == len(city)
    assert [found[name] for name in found if "dense" in name] == [None, None]


@pytest.mark.parametrize(("optimizer", "expected"), [("adam", "whole"), ("lazy_adam", "rows")])
def test_the_optimizer_decides_where_bytes_do_not(optimizer: str, expected: str) -> None:
    model = sharded.built(OneOfTwo(), {})
    step, _, _ = sharded.training(model, OneOfTwo(), optimizer)
    chosen = step.choose_exchange({name: tf.constant(values) for name, values in sharded.batch(0).items()})
    assert len(chosen) == 4 and set(chosen.values()) == {expected}


def test_half_precision_without_a_loss_scale_is_refused() -> None:
    with pytest.raises(KfrecError, match=r"fp16_allreduce=True: .* turn amp on"):
        build(worker_parameters("sim"), {"fp16_allreduce": "true"})
