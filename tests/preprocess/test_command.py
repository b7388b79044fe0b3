from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.datasets.amazon_reviews.raw import random_reviews, raw_folder

DASHBOARD_PORT = 8787  # Dask's; two steps may run on one machine.
CATEGORIES = {f"i{number}": "x" for number in range(21)}


@pytest.mark.slow
def test_the_screen_shows_progress_and_nothing_else(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", random_reviews(users=60, items=20, seed=5), CATEGORIES)
    options = ["--shortest_sequence_for_user", "3", "--reviews_per_partition", "100", "--workers", "2"]
    command = [sys.executable, "-m", "components.preprocess", "--raw", str(raw), "--parquet", str(tmp_path / "parquet")]
    with socket.socket() as taken:
        with suppress(OSError):  # Another test's may be there.
            taken.bind(("", DASHBOARD_PORT))
            taken.listen()
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    filters, counts, place = done.stdout.splitlines()
    assert filters.endswith("can be targets")
    assert counts.startswith("preprocess: ") and place.startswith("parquet: ")
    labels = {line.split(":")[0] for line in done.stderr.replace("\r", "\n").splitlines() if line.strip()}
    assert labels == {
        "reading reviews",
        "reading metadata",
        "sorting histories",
        "fitting the vocabulary",
        "encoding",
        "writing samples",
    }
