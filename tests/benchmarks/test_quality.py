"""The comparison on real tables, on a synthetic one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import quality
from benchmarks.quality import CASES, EXAMPLES, Case, measured, missed_targets, table, trees
from components.datasets.tabular.raw_files import read_schema
from components.datasets.tabular.synthetic import write_synthetic
from components.steps.catalog import STEPS
from pipelines.defaults import TRAINING, Pipeline
from pipelines.parameters import checked


@pytest.mark.parametrize("name", CASES)
def test_the_commands_that_are_shown_are_accepted(name: str) -> None:
    for model, choices in CASES[name].choices.items():
        for settings in choices:
            values = {"table_schema": CASES[name].schema or "schema.yaml", **settings}
            assert checked(values, Pipeline(TRAINING, model, "tabular", "click"))
            assert f"--model {model} " in CASES[name].command(model, settings)


def test_validation_chooses_and_only_the_chosen_settings_and_the_defaults_read_the_test_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    validation, read = {0: 0.7, 1: 0.9, 2: 0.8}, []

    def fitted(model: str, settings: dict, parquet: Path, records: Path, folder: Path, seed: int) -> tuple:
        def scored() -> tuple[np.ndarray, np.ndarray]:
            read.append((settings.get("choice", 0), seed))
            return np.array([0, 1, 0, 1]), np.array([0.2, 0.8, 0.6, 0.4])

        return validation[settings.get("choice", 0)], scored

    monkeypatch.setattr(quality, "_fitted", fitted)
    monkeypatch.setattr(quality, "run_step", lambda *words: None)
    case = Case("f", "s.yaml", {"m": ({}, {"choice": 1}, {"choice": 2})})
    rows = quality.measure(case, tmp_path, tmp_path, [1, 2], ["m"])
    assert [(row.name, row.validation) for row in rows] == [("m, defaults", 0.7), ("m, tuned on validation", 0.9)]
    assert read == [(0, 1), (0, 2), (1, 1), (1, 2)]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_examples_are_schemas(path: Path) -> None:
    assert read_schema(str(path), path.read_text()).sources


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.generate])
def test_every_generated_case_is_learnable_and_has_a_valid_schema(name: str, tmp_path: Path) -> None:
    generate = CASES[name].generate
    assert generate
    assert 0.75 < generate(tmp_path) < 1
    assert read_schema("schema.yaml", (tmp_path / "schema.yaml").read_text()).sources


def test_the_table_shows_mean_and_range() -> None:
    found = [{"auc": 0.9, "logloss": 0.3, "accuracy": 0.8}, {"auc": 0.92, "logloss": 0.3, "accuracy": 0.9}]
    assert "| m | 0.9100 (0.9000 to 0.9200) | 0.3000 (0.3000 to 0.3000) | 0.8500 (0.8000 to 0.9000) |" in table(
        {"m": found}
    )


def test_a_target_that_is_missed_is_told() -> None:
    case = Case("f", "s.yaml", {"m": ({},)}, targets={"m": {"auc": 0.9}})
    assert missed_targets(case, {"m": [{"auc": 0.89}, {"auc": 0.9}]}) == ["m: auc 0.8950 is below the target 0.9"]
    assert not missed_targets(case, {"m": [{"auc": 0.91}, {"auc": 0.89}]})


def test_the_metrics_are_those_of_the_probabilities() -> None:
    found = measured(np.array([0, 0, 1, 1]), np.array([0.1, 0.6, 0.4, 0.8]))
    expected = -np.mean(np.log([0.9, 0.4, 0.4, 0.8]))
    assert (found["auc"], found["accuracy"]) == (0.75, 0.5)
    assert found["logloss"] == pytest.approx(expected)


@pytest.mark.slow
def test_trees_learn_the_samples(tmp_path: Path) -> None:
    from components.artifacts import adopt
    from components.preprocess.step import run

    (tmp_path / "raw").mkdir()
    write_synthetic(STEPS["download"].of(dataset="tabular", synthetic_rows=3000), tmp_path / "raw")
    adopt(tmp_path / "raw")
    run(STEPS["preprocess"].of(dataset="tabular", workers=1), raw=tmp_path / "raw", parquet=tmp_path / "parquet")
    validation, scored = trees(tmp_path / "parquet", 1, {})
    assert 0.6 < measured(*scored())["auc"] < 0.9
    assert 0.6 < validation < 0.9
