"""Two runs side by side, made of real artifacts without any training."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from components.artifacts import publishing
from components.scoring.predictions import FILENAME, write_predictions
from pipelines.cli import main
from pipelines.defaults import Pipeline
from pipelines.runs.compare import compare
from pipelines.runs.record import FINISHED, RunRecord
from tests.binary import binary_scores

_ROWS = 400
_LABELS = np.arange(_ROWS) % 2


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., RunRecord]:
    """Makes a run with records and an evaluation.

    The scores are labels plus noise, so the AUC falls with the noise.
    """

    def made(name: str, noise: float, test: str = "the same", **parameters: object) -> RunRecord:
        folder = tmp_path / name
        with publishing(folder / "tfrecord", step="tfrecord") as records:
            (records.path / "test").mkdir()
            (records.path / "test" / "part_0.tfrecord").write_text(test)
            records.rows["test"] = _ROWS
        drawn = np.random.default_rng(len(name)).normal(0, noise, _ROWS)
        scores = binary_scores(_LABELS.astype(np.float32), (_LABELS + drawn).astype(np.float32))
        with publishing(folder / "evaluation", step="evaluate") as evaluation:
            write_predictions(evaluation.path / FILENAME, scores)
            (evaluation.path / "metrics.json").write_text(json.dumps({"test_auc": 1 - noise / 10}))
        steps = {
            "tfrecord": {"outputs": {"tfrecord": str(folder / "tfrecord")}},
            "evaluate": {"outputs": {"evaluation": str(folder / "evaluation")}},
        }
        run = RunRecord(folder, Pipeline(model="din"), parameters, "", started=1.0, steps=steps, state=FINISHED)
        run.write()
        return run

    return made


def test_the_verdict_and_why_come_first_and_all_values_on_request(make: Callable[..., RunRecord]) -> None:
    found = compare(make("a", 3.0, lr=0.01, epochs=3), make("bb", 0.1, lr=0.02, epochs=3))
    assert set(found.parameters) == {"pipeline", "model", "dataset", "task", "lr", "epochs"}
    verdict, differ, hint = found.to_text().splitlines()
    assert verdict.startswith("bb is better: test AUC ") and verdict.endswith("which is more than chance")
    assert (differ, hint) == ("differ: parameters (lr); no data; metrics (test_auc)", "--all shows all values")
    first, second, *rest = found.to_text(everything=True).splitlines()
    assert (first, second) == (verdict, differ) and "data: no difference" in rest
    shown = [line.split() for line in rest]
    assert ["lr", "0.01", "0.02"] in shown and ["test_auc", "0.7", "0.99"] in shown and ["epochs", "3", "3"] in shown


def test_many_differences_are_counted(make: Callable[..., RunRecord]) -> None:
    one, other = ({f"p{number}": number + more for number in range(10)} for more in (0, 1))
    found = compare(make("a", 1.0, **one), make("b", 1.0, **other)).to_text()
    assert "p6, p7, and 2 more)" in found and found.startswith("neither is better: test AUC ")


def test_counts_of_lines_are_no_rows_rows(make: Callable[..., RunRecord], tmp_path: Path) -> None:
    run = make("a", 0.1)
    with publishing(tmp_path / "raw", step="download") as raw:
        raw.rows.update({"reviews": 8, "lines": 3, "lines of schema": 2, "malformed_rows": 1})
    steps = {**run.steps, "download": {"outputs": {"raw": str(tmp_path / "raw")}}}
    found = compare(dataclasses.replace(run, steps=steps), make("bb", 0.1)).data
    counts = {name: first for name, (first, _) in found.items() if name.startswith("raw") and "digest" not in name}
    assert counts == {"raw reviews rows": 8, "raw lines": 3, "raw lines of schema": 2, "raw malformed_rows": 1}


def test_different_values_do_not_look_the_same(make: Callable[..., RunRecord]) -> None:
    found = compare(make("a", 0.1, lr=0.12345678, decay=0.5), make("bb", 0.1, lr=0.12345679, decay=0.25))
    shown = [line.split() for line in found.to_text(everything=True).splitlines()]
    assert ["lr", "0.12345678", "0.12345679"] in shown and ["decay", "0.5", "0.25"] in shown


def test_a_clear_difference_is_more_than_chance(make: Callable[..., RunRecord]) -> None:
    chance = compare(make("a", 0.1), make("bb", 3.0)).chance
    assert chance.more_than_chance and chance.difference.low > 0
    assert "on the same 400 samples" in chance.verdict and chance.verdict.endswith("which is more than chance")


def test_equal_models_differ_by_no_more_than_chance(make: Callable[..., RunRecord]) -> None:
    chance = compare(make("a", 1.0), make("b", 1.0)).chance
    assert chance.more_than_chance is False and "no more than chance" in chance.verdict


def test_other_test_samples_are_not_compared(make: Callable[..., RunRecord]) -> None:
    chance = compare(make("a", 0.1), make("bb", 3.0, test="others")).chance
    assert chance.more_than_chance is None and "different test samples" in chance.verdict
    assert chance.headline == "which one is better cannot be said"


def test_other_tasks_are_not_compared(make: Callable[..., RunRecord]) -> None:
    other = dataclasses.replace(make("bb", 3.0), pipeline=Pipeline(model="din", task="ranking"))
    assert "different tasks, click and ranking" in compare(make("a", 0.1), other).chance.verdict


def test_a_run_without_evaluation_says_so(make: Callable[..., RunRecord]) -> None:
    other = make("bb", 3.0)
    del other.steps["evaluate"]
    assert "bb (finished) has no evaluation" in compare(make("a", 0.1), other).chance.verdict


def test_scripts_get_json(make: Callable[..., RunRecord], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make("a", 0.1), make("bb", 3.0)
    assert main(["compare", "a", "bb", "--json", "--workdir", str(tmp_path)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["more_than_chance"] is True and shown["difference"]["low"] > 0
    assert shown["metrics"]["test_auc"] == [0.99, 0.7]
