"""Criteo's samples, compared with a plain implementation over dictionaries."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from components.artifacts import adopt, open_artifact
from components.datasets.criteo.columns import CATEGORICAL
from components.feature_spec import load_feature_spec
from tests.datasets.amazon_reviews.raw import samples
from tests.datasets.criteo.raw import (
    assert_samples,
    expected_samples,
    expected_vocabularies,
    preprocess,
    random_lines,
    raw_folder,
    text_of,
    vocabulary,
)

DAYS = {f"day_{day}": random_lines(60, day) for day in (2, 9, 10, 11)}


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return raw_folder(tmp_path_factory.mktemp("raw") / "raw", **DAYS)


def digest(output: Path) -> str:
    return open_artifact(output).digest


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [0, 3, 15])
def test_samples_and_vocabularies_are_those_of_a_plain_implementation(
    raw: Path, tmp_path: Path, threshold: int
) -> None:
    counts = preprocess(raw, tmp_path / "out", frequency_threshold=threshold, impressions_per_partition=25)
    train = DAYS["day_2"] + DAYS["day_9"] + DAYS["day_10"]
    known = expected_vocabularies(train, threshold)
    assert [vocabulary(tmp_path / "out", name) for name in CATEGORICAL] == known
    assert_samples(samples(tmp_path / "out", "train"), expected_samples(train, known))
    assert_samples(samples(tmp_path / "out", "test"), expected_samples(DAYS["day_11"][:30], known))
    assert dict(counts) == {"train": 180, "test": 30, "impressions": 240, "malformed_lines": 0}


def test_the_specification_gives_the_number_of_kept_values(raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "out", frequency_threshold=15)
    features = load_feature_spec(tmp_path / "out").features
    sizes = [len(vocabulary(tmp_path / "out", name)) for name in CATEGORICAL]
    assert [features[name].cardinality for name in CATEGORICAL] == sizes


def test_a_column_without_a_frequent_value_still_has_a_table(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", train=random_lines(20))
    preprocess(raw, tmp_path / "out", frequency_threshold=1000)
    assert load_feature_spec(tmp_path / "out").features["cat_1"].cardinality == 1
    assert {row["cat_1"] for row in samples(tmp_path / "out", "train")} == {0}


def test_the_test_day_and_the_days_before_it_can_be_chosen(raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "out", test_day=10, train_days=1, test_day_share=1.0, frequency_threshold=0)
    known = expected_vocabularies(DAYS["day_9"], 0)
    assert_samples(samples(tmp_path / "out", "train"), expected_samples(DAYS["day_9"], known))
    assert_samples(samples(tmp_path / "out", "test"), expected_samples(DAYS["day_10"], known))


def test_the_end_of_a_single_file_is_the_test_split(tmp_path: Path) -> None:
    lines = random_lines(50)
    raw = raw_folder(tmp_path / "raw", train=lines)
    preprocess(raw, tmp_path / "out", test_share=0.2, frequency_threshold=2, impressions_per_partition=7)
    known = expected_vocabularies(lines[:40], 2)
    assert_samples(samples(tmp_path / "out", "train"), expected_samples(lines[:40], known))
    assert_samples(samples(tmp_path / "out", "test"), expected_samples(lines[40:], known))


def test_gzip_and_plain_files_give_the_same_samples(raw: Path, tmp_path: Path) -> None:
    packed = raw_folder(tmp_path / "raw")
    for name, lines in DAYS.items():
        (packed / f"{name}.gz").write_bytes(gzip.compress(text_of(lines).encode()))
    adopt(packed)
    preprocess(raw, tmp_path / "plain")
    preprocess(packed, tmp_path / "packed")
    assert_samples(samples(tmp_path / "plain", "train"), samples(tmp_path / "packed", "train"))


def test_windows_line_ends_and_blank_lines_change_nothing(tmp_path: Path) -> None:
    text = text_of(random_lines(60))
    preprocess(raw_folder(tmp_path / "a", train=text), tmp_path / "unix")
    other = raw_folder(tmp_path / "b")
    (other / "train.txt").write_bytes(text.replace("\n", "\r\n\r\n").encode())
    adopt(other)
    preprocess(other, tmp_path / "windows")
    assert_samples(samples(tmp_path / "unix", "train"), samples(tmp_path / "windows", "train"))


def test_capitals_are_the_same_value(tmp_path: Path) -> None:
    lines = random_lines(60)
    preprocess(raw_folder(tmp_path / "a", train=lines), tmp_path / "small", frequency_threshold=0)
    capitals = [[field.upper() for field in line] for line in lines]
    preprocess(raw_folder(tmp_path / "b", train=capitals), tmp_path / "capital", frequency_threshold=0)
    assert_samples(samples(tmp_path / "small", "train"), samples(tmp_path / "capital", "train"))


@pytest.mark.slow
def test_two_workers_write_the_same_bytes_as_one(raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "one", impressions_per_partition=25, workers=1)
    preprocess(raw, tmp_path / "two", impressions_per_partition=25, workers=2)
    assert len(list((tmp_path / "one" / "train").iterdir())) == 9
    assert digest(tmp_path / "one") == digest(tmp_path / "two")


@pytest.mark.slow
def test_a_running_scheduler_writes_the_same_bytes(raw: Path, tmp_path: Path) -> None:
    from distributed import LocalCluster

    preprocess(raw, tmp_path / "here", impressions_per_partition=25)
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        preprocess(raw, tmp_path / "there", impressions_per_partition=25, scheduler=cluster.scheduler_address)
    assert digest(tmp_path / "here") == digest(tmp_path / "there")


@pytest.mark.slow
def test_the_size_of_a_partition_does_not_change_the_samples(raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "small", impressions_per_partition=7)
    preprocess(raw, tmp_path / "large")
    for split in ("train", "test"):
        assert_samples(samples(tmp_path / "small", split), samples(tmp_path / "large", split))
