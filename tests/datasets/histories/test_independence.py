"""Samples depend on the reviews, the seed and the parameters, not on how the work is divided."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from components.artifacts import open_artifact
from tests.datasets.amazon_reviews.raw import named, preprocess, random_reviews, raw_folder

REVIEWS = random_reviews(users=120, items=30, seed=1)
CATEGORIES = {f"i{number}": f"c{number % 4}" for number in range(25)}


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return raw_folder(tmp_path_factory.mktemp("independence") / "raw", REVIEWS, CATEGORIES)


def digest(output: Path) -> str:
    """Covers every file of the output, byte for byte."""
    return open_artifact(output).digest


@pytest.mark.slow
def test_the_same_input_gives_the_same_digest_elsewhere_and_later(raw: Path, tmp_path: Path) -> None:
    # In another process, whose hashes of text have another seed.
    script = (
        "import sys; from pathlib import Path; from tests.datasets.amazon_reviews.raw import preprocess; "
        "preprocess(Path(sys.argv[1]), Path(sys.argv[2])); "
        "assert 'kubernetes' not in sys.modules, 'a local run has no business with it'"
    )
    preprocess(raw, tmp_path / "one")
    moved = shutil.copytree(raw, tmp_path / "moved" / "raw")
    subprocess.run([sys.executable, "-c", script, str(moved), str(tmp_path / "deep" / "er" / "two")], check=True)
    assert digest(tmp_path / "one") == digest(tmp_path / "deep" / "er" / "two")


def test_a_kept_vocabulary_gives_the_same_digest_each_time(raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "fitted")
    for name in ("one", "two"):
        preprocess(raw, tmp_path / name, workflow=str(tmp_path / "fitted"))
    assert digest(tmp_path / "one") == digest(tmp_path / "two")


@pytest.mark.slow
def test_two_workers_write_the_same_bytes_as_one(raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "one", reviews_per_partition=200, workers=1)
    preprocess(raw, tmp_path / "two", reviews_per_partition=200, workers=2)
    assert len(list((tmp_path / "one" / "train").iterdir())) > 2
    assert digest(tmp_path / "one") == digest(tmp_path / "two")


def test_the_size_of_a_partition_does_not_change_the_samples(raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "small", reviews_per_partition=200)
    preprocess(raw, tmp_path / "large", reviews_per_partition=10_000)
    for split in ("train", "test"):
        assert named(tmp_path / "small", split) == named(tmp_path / "large", split)


def test_the_order_of_lines_does_not_change_the_samples(raw: Path, tmp_path: Path) -> None:
    reversed_raw = raw_folder(tmp_path / "raw", REVIEWS[::-1], CATEGORIES)
    preprocess(raw, tmp_path / "forth")
    preprocess(reversed_raw, tmp_path / "back")
    assert digest(tmp_path / "forth") == digest(tmp_path / "back")


def test_another_seed_changes_negatives_only(raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "a", seed=1)
    preprocess(raw, tmp_path / "b", seed=2)
    a, b = named(tmp_path / "a", "train"), named(tmp_path / "b", "train")
    assert [row["item"] for row in a[::2]] == [row["item"] for row in b[::2]]
    assert [row["neg_item_sequence"] for row in a] != [row["neg_item_sequence"] for row in b]
