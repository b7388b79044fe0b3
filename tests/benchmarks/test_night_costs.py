"""What a night takes against days of history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from benchmarks import night_costs
from benchmarks.night_costs import STEPS, Night, measure, table
from components.artifacts import open_artifact


def test_the_table_has_a_row_for_each_number_of_days() -> None:
    nights = [
        Night(days, 1000 * days, 70, dict.fromkeys(STEPS, float(days)), dict.fromkeys(STEPS, 300.0)) for days in (1, 30)
    ]
    assert table(nights).splitlines()[3] == "| 30 | 30,000 | 70 | 30.0, 30.0, 30.0 | 300, 300, 300 |"


@pytest.mark.slow
def test_more_history_is_read_and_the_same_days_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, in_this_process: Callable[..., None]
) -> None:
    def measured(words: Sequence[str]) -> tuple[float, float]:
        in_this_process(words[2].removeprefix("components."), *words[3:])
        return 1.0, 2.0

    monkeypatch.setattr(night_costs, "run_step", in_this_process)
    monkeypatch.setattr(night_costs, "run_measured", measured)
    monkeypatch.setattr(night_costs, "SAMPLING", {**night_costs.SAMPLING, "test_reviews": 0.2})
    monkeypatch.setattr(night_costs, "MODEL", {**night_costs.MODEL, "item_dim": 8, "feed_forward_dim": 16})
    one, other = measure([1, 4], 300, 200, 1, tmp_path)
    assert (one.history, other.history) == (1, 4) and one.events < other.events
    assert set(one.seconds) == set(one.memory) == set(STEPS) and one.samples > 0
    newest = [open_artifact(tmp_path / days / "night" / "raw").files[-1].size for days in ("1", "4")]
    assert newest[0] == newest[1]
