"""Quality on planted data, beside the best possible."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import planted, trained
from benchmarks.planted import AUC, CASES, MAP, Result, measure, table
from components import registry
from components.parameters import build
from components.steps.catalog import STEPS, worker_parameters


@pytest.mark.parametrize("model", CASES)
def test_the_settings_are_parameters_of_the_steps(model: str) -> None:
    case, dataset = CASES[model], registry.model(model).dataset
    for step, given in (("download", {**case.generation, case.size[0]: 1000}), ("preprocess", case.sampling)):
        values = {name: str(value) for name, value in given.items()}
        assert build(STEPS[step].parameters({"dataset": dataset}), {"dataset": dataset, **values})
    assert build(worker_parameters(model), {name: str(value) for name, value in case.training.items()})


def test_a_metric_too_far_below_the_best_is_told() -> None:
    result = Result(10, {AUC: 0.79, MAP: 0.70}, {AUC: 0.792, MAP: 0.71}, 1.0)
    assert result.missed(shuffled=False) == ["MAP@12 0.7000 is more than 0.005 below the best, 0.7100"]
    assert "| m | 10 | MAP@12 | 0.7000 | 0.7100 | 0.0100 | 1 |" in table({"m": result})


@pytest.mark.parametrize(("auc", "missed"), [(0.509, 0), (0.491, 0), (0.511, 1), (0.48, 1)])
def test_with_shuffled_labels_an_auc_off_one_half_is_told(auc: float, missed: int) -> None:
    assert len(Result(10, {AUC: auc}, {AUC: 0.5}, 1.0).missed(shuffled=True)) == missed


@pytest.mark.slow
def test_a_small_training_comes_near_the_best_possible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, in_this_process: Callable[..., None]
) -> None:
    for module in (planted, trained):
        monkeypatch.setattr(module, "run_step", in_this_process)
    found = measure("wide_and_deep", 10_000, False, tmp_path, global_batch_size=256, epochs=2)
    assert set(found.reached) == {AUC, MAP} and found.rows > 2000
    for name, best in found.best.items():
        assert 0.5 * (best + (0.5 if name == AUC else 0.4)) < found.reached[name] < best + 0.02
