from __future__ import annotations

import numpy as np
import pytest

from components.tfrecord.shards import Permutation, plan_shards


@pytest.mark.parametrize("prebatch", [0, 64])
@pytest.mark.parametrize("rows", [1, 1000, 50_000, 333_333])
def test_buckets_hold_every_sample(rows: int, prebatch: int) -> None:
    plan = plan_shards("train", rows, 100_000, prebatch, 224)
    assert sum(plan.rows_of(bucket) for bucket in range(plan.buckets)) == sum(plan.rows_per_file) == rows


def test_more_samples_get_larger_buckets_up_to_what_memory_allows() -> None:
    small, large, huge = (plan_shards("train", rows, 1 << 20, 0, 224) for rows in (10**6, 5 * 10**6, 10**9))
    assert small.bucket_rows < large.bucket_rows < huge.bucket_rows
    assert small.batch_rows < large.batch_rows < huge.batch_rows
    assert huge.bucket_rows * 224 * 4 <= 64 << 20


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 16, 17, 1000, 65_536, 65_537])
def test_every_position_is_taken_once(rows: int) -> None:
    np.testing.assert_array_equal(np.sort(Permutation(rows, 7).positions(0, rows)), np.arange(rows))


def test_a_part_of_the_rows_goes_where_it_goes_in_the_whole() -> None:
    permutation = Permutation(5000, 7)
    np.testing.assert_array_equal(permutation.positions(4000, 300), permutation.positions(0, 5000)[4000:4300])


def test_neighbours_are_scattered() -> None:
    positions = Permutation(100_000, 7).positions(0, 100_000)
    steps = np.abs(np.diff(positions))
    # The distance of two random places has mean n/3 and standard deviation n/sqrt(18); the mean of n of them varies by
    # about 0.00075 n, so 0.005 n is far outside.
    assert abs(steps.mean() / 100_000 - 1 / 3) < 0.005
    assert abs(np.corrcoef(np.arange(100_000), positions)[0, 1]) < 0.02


def test_seeds_differ() -> None:
    assert (Permutation(1000, 7).positions(0, 1000) != Permutation(1000, 8).positions(0, 1000)).any()
