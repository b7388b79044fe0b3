from __future__ import annotations

import pytest

from components.tfrecord.shards import plan_shards


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
