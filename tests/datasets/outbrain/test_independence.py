"""Samples depend on the raw files, the seed and the parameters, not on how the work is divided."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from components.artifacts import adopt, open_artifact
from tests.datasets.outbrain.raw import preprocess, random_tables, raw_folder, samples

TABLES = random_tables(displays=300, seed=1)
PARTS = {"clicks_per_partition": 200}


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return raw_folder(tmp_path_factory.mktemp("independence") / "raw", TABLES)


def digest(output: Path) -> str:
    return open_artifact(output).digest


@pytest.mark.slow
def test_two_workers_write_the_same_bytes_as_one(raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "one", **PARTS, workers=1)
    preprocess(raw, tmp_path / "two", **PARTS, workers=2)
    assert len(list((tmp_path / "one" / "train").iterdir())) > 2
    assert digest(tmp_path / "one") == digest(tmp_path / "two")


@pytest.mark.slow
def test_a_running_scheduler_writes_the_same_bytes(raw: Path, tmp_path: Path) -> None:
    from distributed import LocalCluster

    preprocess(raw, tmp_path / "here", **PARTS)
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        preprocess(raw, tmp_path / "there", **PARTS, scheduler=cluster.scheduler_address)
    assert digest(tmp_path / "here") == digest(tmp_path / "there")


def test_the_size_of_a_partition_does_not_change_the_samples(raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "small", **PARTS)
    preprocess(raw, tmp_path / "large")
    for split in ("train", "test"):
        pd.testing.assert_frame_equal(samples(tmp_path / "small", split), samples(tmp_path / "large", split))


def test_the_order_of_lines_does_not_change_the_samples(raw: Path, tmp_path: Path) -> None:
    turned = {}
    for name in ("clicks_train", "events", "promoted_content", "documents_meta"):
        header, *lines = TABLES[name].splitlines()
        turned[name] = "\n".join([header, *lines[::-1]]) + "\n"
    preprocess(raw, tmp_path / "forth")
    preprocess(raw_folder(tmp_path / "raw", TABLES, **turned), tmp_path / "back")
    assert digest(tmp_path / "forth") == digest(tmp_path / "back")


def test_compressed_files_give_the_same_bytes(raw: Path, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    for path in raw.glob("*.csv"):
        (tmp_path / "raw" / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    adopt(tmp_path / "raw")
    for name, source in (("plain", raw), ("compressed", tmp_path / "raw")):
        preprocess(source, tmp_path / name)
    assert digest(tmp_path / "plain") == digest(tmp_path / "compressed")


def test_another_seed_divides_displays_differently(raw: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        preprocess(raw, tmp_path / str(seed), seed=seed)
    one, two = (set(samples(tmp_path / str(seed), "train")["display_id"]) for seed in (1, 2))
    assert one != two
    assert len(one & two) / len(one) == pytest.approx(0.8, abs=0.1)


def test_no_number_is_missing(raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "parquet")
    for split in ("train", "test"):
        numbers = samples(tmp_path / "parquet", split).select_dtypes("float32").to_numpy()
        assert numbers.shape[1] == 13
        assert np.isfinite(numbers).all()
