"""What a training reads, and batches as a step takes them."""

from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.errors import KfrecError
from components.feature_spec import load_feature_spec
from components.models.ops.choice import as_with_gpu
from components.steps.catalog import WorkerParameters
from components.train.loop.data import TrainingData, open_data
from components.train.loop.ranks import Alone, Ranks
from tests.train.dataset import samples, write_dataset
from tests.train.loop.building import OneOfTwo


def opened(folder: Path, ranks: Ranks | None = None, **given: Any) -> TrainingData:
    parameters = WorkerParameters(**{"global_batch_size": 50, "validation_share": 0.0, **given})
    return open_data(load_feature_spec(folder), parameters, ranks or Alone(), ("uid", "item_pos"))


def scored_rows(data: TrainingData) -> int:
    return data.scored.rows if data.scored is not None else 0


@pytest.mark.parametrize("size", [50, 300])
def test_full_test_batches_come_without_end_and_ranks_share_them(tmp_path: Path, size: int) -> None:
    folder = write_dataset(tmp_path / "data", train=300, test=101)
    whole, *parts = [
        list(islice(opened(folder, ranks, global_batch_size=size, mode="inference").full_scored_batches(), 5))
        for ranks in (Alone(), OneOfTwo(0), OneOfTwo(1))
    ]
    test = samples(101, seed=2)["item_pos"]
    for step, batch in enumerate(whole):
        first = step % 2 * 50 if size == 50 else 0  # of 101 samples there are two full batches of 50
        np.testing.assert_array_equal(batch["item_pos"], test[(first + np.arange(size)) % 101])
        shared = np.concatenate([part[step]["item_pos"] for part in parts])
        np.testing.assert_array_equal(shared, batch["item_pos"])


@pytest.mark.parametrize("rows", [300, 337])
def test_positions_are_those_of_the_samples_in_the_batches_of_one_rank(tmp_path: Path, rows: int) -> None:
    folder = write_dataset(tmp_path / "data", train=rows)
    whole, *parts = (opened(folder, ranks, repeat_count=2) for ranks in (Alone(), OneOfTwo(0), OneOfTwo(1)))
    batches = list(whole.training_batches(1, 0))
    for part in parts:
        mine = list(zip(part.training_batches(1, 0, first_step=4), part.positions(0, 100, first_step=4), strict=True))
        assert [step for _, (step, _) in mine] == list(range(104, 100 + whole.steps_per_epoch))
        for batch, (step, first) in mine:
            expected = batches[step - 100]["item_pos"][first : first + len(batch["item_pos"])]
            np.testing.assert_array_equal(batch["item_pos"], expected)


def test_epochs_of_steps_read_the_passes_one_after_the_other(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "data", train=337)
    passes = opened(folder, Alone(), repeat_count=3)
    every = [batch["item_pos"] for batch in passes.training_batches(1, 0)]
    steps = len(every) * 2 // 3 + 1  # an epoch ends within a pass
    limited = opened(folder, Alone(), steps_per_epoch=steps, max_steps=len(every), epochs=9)
    assert limited.epochs == 2 and [limited.steps_of(epoch) for epoch in range(2)] == [steps, len(every) - steps]
    taken = [batch["item_pos"] for epoch in range(2) for batch in limited.training_batches(1, epoch)]
    resumed = [batch["item_pos"] for batch in limited.training_batches(1, 1, first_step=1)]
    for mine, expected in zip(taken, every, strict=True):
        np.testing.assert_array_equal(mine, expected)
    np.testing.assert_array_equal(np.concatenate(resumed), np.concatenate(every[steps + 1 :]))
    rows = [limited.rows_of(epoch, step) for epoch in range(2) for step in range(limited.steps_of(epoch))]
    assert rows == [len(batch) for batch in every]
    assert limited.rows_of_epoch(0) + limited.rows_of_epoch(1) == 3 * limited.train.rows


def test_records_tell_a_prebatch_size_that_the_specification_does_not(tmp_path: Path) -> None:
    written: dict[str, Any] = dict(train=430, test=101, prebatch_size=100)
    public = opened(
        write_dataset(tmp_path / "public", **written, noted=False),
        mode="inference",
        prebatch_train_size=100,
        prebatch_test_size=100,
    )
    own = opened(write_dataset(tmp_path / "own", **written), mode="inference")
    assert (public.train.rows, scored_rows(public)) == (430, 101)
    for theirs, ours in zip(public.training_batches(1, 0), own.training_batches(1, 0), strict=True):
        np.testing.assert_array_equal(theirs["item_pos"], ours["item_pos"])


def test_the_public_number_of_parallel_calls_is_the_number_of_decoding_threads(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "data", train=300)
    one, three = (opened(folder, num_parallel_calls=threads) for threads in (1, 3))
    assert (one.train.threads, three.train.threads) == (1, 3)
    for first, second in zip(one.training_batches(1, 0), three.training_batches(1, 0), strict=True):
        np.testing.assert_array_equal(first["item_pos"], second["item_pos"])


def test_a_split_smaller_than_a_record_fits_any_prebatch_size(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "data", train=430, test=30, prebatch_size=100, noted=False)
    data = opened(folder, mode="eval", prebatch_train_size=100, prebatch_test_size=64)
    assert scored_rows(data) == 30


@pytest.mark.parametrize("noted", [False, True])
@pytest.mark.parametrize(("prebatch_size", "told"), [(0, "holds 1;"), (100, "holds 100;")])
def test_another_prebatch_size_than_the_records_is_refused(
    tmp_path: Path, prebatch_size: int, told: str, noted: bool
) -> None:
    folder = write_dataset(tmp_path / "data", train=430, prebatch_size=prebatch_size, noted=noted)
    with pytest.raises(KfrecError, match=f"prebatch_train_size=64, but a record of the train split in .* {told}"):
        opened(folder, prebatch_train_size=64)


@pytest.mark.parametrize(("on_gpu", "kind"), [(False, tf.int32), (True, tf.int64)])
def test_ids_have_the_type_that_the_computing_device_works_with(tmp_path: Path, on_gpu: bool, kind: tf.DType) -> None:
    with as_with_gpu() if on_gpu else nullcontext():
        handed = opened(write_dataset(tmp_path / "data")).train_transfer
        batch = handed.features(handed.sent({name: ids.astype(np.int32) for name, ids in samples(3, seed=1).items()}))
    assert {values.dtype for values in batch.values()} == {kind}


@pytest.mark.parametrize("prebatch_size", [0, 100])
@pytest.mark.parametrize("ranks", [1, 2])
def test_samples_that_are_held_out_are_measured_and_train_nothing(
    tmp_path: Path, prebatch_size: int, ranks: int
) -> None:
    folder = write_dataset(tmp_path / "data", train=1000, test=50, prebatch_size=prebatch_size)
    all_ranks = [Alone()] if ranks == 1 else [OneOfTwo(0), OneOfTwo(1)]
    given = [opened(folder, one, validation_share=0.25, global_batch_size=48) for one in all_ranks]
    found = {(data.samples.measured, data.train.rows, scored_rows(data)) for data in given}
    assert found == {("validation", 750, 250)}
    rows = samples(1000, seed=1)["item_pos"]

    def read(batches: list[Any]) -> list[tuple[int, ...]]:
        return sorted(tuple(row) for each in batches for batch in each for row in batch["item_pos"].tolist())

    assert read([data.training_batches(3, 0) for data in given]) == sorted(map(tuple, rows[:750].tolist()))
    assert read([data.scored_batches() for data in given]) == sorted(map(tuple, rows[750:].tolist()))


def test_a_share_that_holds_out_nothing_is_refused(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "data", train=100)
    with pytest.raises(KfrecError, match=r"validation_share=0\.001: holds out none of 100 training samples"):
        opened(folder, validation_share=0.001)


def test_no_more_samples_are_scored_at_a_time_than_differentiated(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "data", train=300)
    given: dict[str, Any] = dict(global_batch_size=100, micro_batch_size=20, validation_share=0.5)
    data = opened(folder, **given)
    whole = [batch["uid"] for batch in data.scored_batches()]
    assert [len(batch) for batch in whole] == [20] * 7 + [10]
    assert data.scored_batch_size == 20
    shared = [opened(folder, OneOfTwo(rank), **given) for rank in (0, 1)]
    assert {len(batch["uid"]) for data in shared for batch in data.scored_batches()} == {15, 20}
    np.testing.assert_array_equal(
        sorted(np.concatenate([batch["uid"] for data in shared for batch in data.scored_batches()])),
        sorted(np.concatenate(whole)),
    )
    assert opened(folder, global_batch_size=100, validation_share=0.5).scored_batch_size == 100
