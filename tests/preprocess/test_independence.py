"""Samples depend on the reviews, the seed and the parameters, not on how the work is divided."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.artifacts import open_artifact
from tests.preprocess.raw import named, preprocess, random_reviews, raw_folder

REVIEWS = random_reviews(users=120, items=30, seed=1)
CATEGORIES = {f"i{number}": f"c{number % 4}" for number in range(25)}


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return raw_folder(tmp_path_factory.mktemp("independence") / "raw", REVIEWS, CATEGORIES)


def contents(output: Path) -> dict[str, str]:
    """Checksum of each file but the workflow's, which records when and where it was saved."""
    files = open_artifact(output).files
    return {
        file.path: file.crc32c for file in files if file.path not in ("workflow/workflow.pkl", "workflow/metadata.json")
    }


@pytest.mark.slow
def test_two_workers_write_the_same_bytes_as_one(raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "one", reviews_per_partition=200, workers=1)
    preprocess(raw, tmp_path / "two", reviews_per_partition=200, workers=2)
    assert len(list((tmp_path / "one" / "train").iterdir())) > 2
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_running_scheduler_writes_the_same_bytes(raw: Path, tmp_path: Path) -> None:
    from distributed import LocalCluster

    preprocess(raw, tmp_path / "here", reviews_per_partition=200)
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        preprocess(raw, tmp_path / "there", reviews_per_partition=200, scheduler=cluster.scheduler_address)
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_the_size_of_a_partition_does_not_change_the_samples(raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "small", reviews_per_partition=200)
    preprocess(raw, tmp_path / "large", reviews_per_partition=10_000)
    for split in ("train", "test"):
        assert named(tmp_path / "small", split) == named(tmp_path / "large", split)


def test_the_order_of_lines_does_not_change_the_samples(raw: Path, tmp_path: Path) -> None:
    reversed_raw = raw_folder(tmp_path / "raw", REVIEWS[::-1], CATEGORIES)
    preprocess(raw, tmp_path / "forth")
    preprocess(reversed_raw, tmp_path / "back")
    assert contents(tmp_path / "forth") == contents(tmp_path / "back")


def test_another_seed_changes_negatives_only(raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "a", seed=1)
    preprocess(raw, tmp_path / "b", seed=2)
    a, b = named(tmp_path / "a", "train"), named(tmp_path / "b", "train")
    assert [row["item"] for row in a[::2]] == [row["item"] for row in b[::2]]
    assert [row["neg_item_sequence"] for row in a] != [row["neg_item_sequence"] for row in b]
