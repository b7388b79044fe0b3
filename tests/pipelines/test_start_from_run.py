"""Runs that start from the model of an earlier run, by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.cli import main
from pipelines.defaults import TRAINING, Pipeline
from pipelines.runs.record import FINISHED, RunRecord


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder of two runs: old has a model, and new, the last one, has none."""
    sizes = {"encoder_width": 48, "positions": 64, "generator_share": 0.5, "learning_rate": 0.5}
    for started, (name, steps) in enumerate(
        {"old": {"train": {"outputs": {"model": "/old/model"}}}, "new": {}}.items()
    ):
        (tmp_path / name).mkdir()
        pipeline = Pipeline(TRAINING, "electra")
        RunRecord(tmp_path / name, pipeline, sizes, "", started, steps=steps, state=FINISHED).write()
    return tmp_path


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The values that a run is started with."""
    values: dict[str, Any] = {}
    monkeypatch.setattr("pipelines.local.run", lambda pipeline, told, workdir: values.update(told))
    return values


@pytest.mark.parametrize(("model", "name"), [("electra_qa", "warm_start_path"), ("electra", "continue_path")])
def test_it_takes_the_vocabulary_and_the_sizes_of_the_run(
    model: str, name: str, runs: Path, given: dict[str, Any]
) -> None:
    words = ["run", "--model", model, "--workdir", str(runs), "--set", f"{name}=old", "--set", "positions=128"]
    assert main(words) == 0
    assert given.pop("generator_share", None) == (0.5 if model == "electra" else None)
    assert given == {name: "/old/model", "workflow": "/old/model", "encoder_width": 48, "positions": "128"}


def test_a_model_that_translates_rows_by_vocabulary_takes_the_weights_alone(runs: Path, given: dict[str, Any]) -> None:
    assert main(["run", "--workdir", str(runs), "--set", f"warm_start_path={runs / 'old'}"]) == 0
    assert given == {"warm_start_path": "/old/model"}


def test_what_is_no_run_is_left_as_it_is(runs: Path, given: dict[str, Any]) -> None:
    assert main(["run", "--workdir", str(runs), "--set", "warm_start_path=gs://models/4", "--set", "workflow="]) == 0
    assert given == {"warm_start_path": "gs://models/4", "workflow": ""}


def test_a_run_without_a_model_is_refused(
    runs: Path, given: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--workdir", str(runs), "--set", "workflow=last"]) == 2
    assert capsys.readouterr().err == (
        "error: run new (finished) has trained no model; name another run, see kfrec runs\n"
    )
    assert not given
