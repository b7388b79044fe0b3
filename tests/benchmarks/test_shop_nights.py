"""Four ways of training in a shop, night after night."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks import shop_nights
from benchmarks.nights import FULL, WAYS
from benchmarks.shop_nights import Night, measure, table
from components.datasets.histories.growing import require_growing


def test_the_table_compares_the_lists_of_the_same_customers() -> None:
    users = np.arange(200)
    hits = {way: (users < 50 + 20 * number).astype(np.float64) for number, way in enumerate(WAYS)}
    found = [{way: [Night(users, hits[way], 10.0), Night(users, hits[way], 30.0)] for way in WAYS}]
    lines = table(found).splitlines()
    assert lines[2].startswith("| full | 0.2500 (") and lines[2].endswith("| 20 | 1.00 |")
    assert lines[4].startswith("| incremental | 0.4500 (") and "| +0.2000 (+" in lines[4] and "| +0.1000 (+" in lines[4]


@pytest.mark.slow
def test_small_nights_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, in_this_process: Callable[..., None]
) -> None:
    monkeypatch.setattr(shop_nights, "run_step", in_this_process)
    monkeypatch.setattr(shop_nights, "_EVERYTHING", {"epochs": 1, "patience": 0})
    # A few hundred customers choose little in the newest two hundredths of a day.
    monkeypatch.setattr(shop_nights, "SAMPLING", {**shop_nights.SAMPLING, "test_reviews": 0.2})
    found = measure(5, 1, 300, 200, 1, tmp_path, 1, 0.1, item_dim=8, feed_forward_dim=16)
    assert {way: len(each) for way, each in found.items()} == dict.fromkeys(WAYS, 1)
    assert all(0 <= night.hits.mean() < 0.9 and len(night.hits) == len(night.users) for (night,) in found.values())
    assert "rows of embeddings start afresh" in (tmp_path / "incremental-6" / "model" / "worker.log").read_text()
    assert "start afresh" not in (tmp_path / "no-admission-6" / "model" / "worker.log").read_text()
    ends = [require_growing(tmp_path / name / "tfrecord", "").end for name in ("first", "incremental-6")]
    assert ends[0] < ends[1] and FULL in found
