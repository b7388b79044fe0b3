"""The two published data sets: counts known from elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from components.artifacts import adopt
from tests.datasets.amazon_reviews.raw import named, preprocess


def copied(folder: Path, to: Path) -> Path:
    shutil.copytree(folder, to, copy_function=shutil.copyfile)
    to.chmod(0o755)
    adopt(to)
    return to


@pytest.mark.slow
def test_beauty_gives_the_published_number_of_samples(real_data: Path, tmp_path: Path) -> None:
    raw = copied(real_data / "amazon_beauty", tmp_path / "raw")
    rows = preprocess(raw, tmp_path / "parquet", shortest_sequence_for_user=10, max_sequence_length=100)
    assert rows == {"train": 163_156, "test": 10_246, "users": 5_123, "events": 91_824, "malformed_lines": 0}


def test_digital_music_as_published_is_read_whole(real_data: Path, tmp_path: Path) -> None:
    raw = copied(real_data / "amazon_digital_music", tmp_path / "raw")
    rows = preprocess(raw, tmp_path / "parquet", shortest_sequence_for_user=20)
    assert (rows["users"], rows["events"], rows["test"], rows["malformed_lines"]) == (27, 828, 54, 0)
    assert all(row["cat"] not in ("?", "no_category") for row in named(tmp_path / "parquet", "test"))
