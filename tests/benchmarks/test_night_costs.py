"""What a night takes against days of history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import night_costs
from benchmarks.night_costs import FORMS, STEPS, Night, measure, table
from components.artifacts import open_artifact


def test_the_table_has_a_row_for_each_number_of_days() -> None:
    nights = [
        Night(days, 1000 * days, 70, dict.fromkeys(STEPS, float(days)), dict.fromkeys(STEPS, 300.0)) for days in (1, 30)
    ]
    assert table(nights).splitlines()[3] == "| 30 | 30,000 | 70 | 30.0, 30.0, 30.0 | 300, 300, 300 |"


SMALL: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "events": ({"test_reviews": 0.2}, {"item_dim": 8, "feed_forward_dim": 16}),
    "criteo": ({}, {"embedding_dim": 4, "bottom_mlp_dims": "8,4", "top_mlp_dims": "8,1", "global_batch_size": 500}),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_the_same_days_train_after_more_history(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, in_this_process: Callable[..., None]
) -> None:
    def measured(words: Sequence[str]) -> tuple[float, float]:
        in_this_process(words[2].removeprefix("components."), *words[3:])
        return 1.0, 2.0

    monkeypatch.setattr(night_costs, "run_step", in_this_process)
    monkeypatch.setattr(night_costs, "run_measured", measured)
    sampling, training = SMALL[form]
    given = FORMS[form]
    small = replace(given, sampling={**given.sampling, **sampling}, training={**given.training, **training})
    one, other = measure(small, [1, 4], 1, 1, tmp_path)
    assert (one.history, other.history) == (1, 4) and one.samples > 0
    assert set(one.seconds) == set(one.memory) == set(STEPS)
    files = [open_artifact(tmp_path / days / "night" / "raw").files for days in ("1", "4")]
    assert (len(files[0]), len(files[1])) == (3, 6 if form == "events" else 3)
    assert files[0][-1].size == files[1][-1].size
