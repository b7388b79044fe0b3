"""Four ways of training, night after night."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import nights, trained
from benchmarks.nights import WAYS, Night, measure, missed, table


def test_the_table_compares_the_same_nights() -> None:
    found = [{way: [Night(0.7 + 0.01 * number, 10.0), Night(0.8, 30.0)] for number, way in enumerate(WAYS)}] * 2
    lines = table(found).splitlines()
    assert lines[2] == "| full | 0.7500 | +0.0000 ± 0.0000 | -0.0050 ± 0.0000 | 20.0 | 1.00 |"
    assert lines[4].startswith("| incremental | 0.7600 | +0.0100 ± 0.0000 | +0.0050 ± 0.0000 |")
    assert missed(found) == ["the cost is 1.00 of that of full, more than 0.2"]


@pytest.mark.slow
def test_small_nights_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, in_this_process: Callable[..., None]
) -> None:
    for module in (nights, trained):
        monkeypatch.setattr(module, "run_step", in_this_process)
    found = measure(1, 3, 1500, 0.1, 1, tmp_path, 1, global_batch_size=500, embedding_dim=4, bottom_mlp_dims="8,4",
                    top_mlp_dims="8,1", warmup_steps=0)  # fmt: skip
    assert {way: len(each) for way, each in found.items()} == dict.fromkeys(WAYS, 1)
    assert all(0.3 < night.auc < 0.8 for each in found.values() for night in each)
    assert not (tmp_path / "full-2").exists() and not (tmp_path / "incremental-2").exists()
    said = (tmp_path / "incremental-3" / "model" / "worker.log").read_text()
    assert "rows of embeddings start afresh" in said
    assert "start afresh" not in (tmp_path / "no-admission-3" / "model" / "worker.log").read_text()
