"""Trials whose train step is a small program that speaks the step's events; the rest is real, MLflow included."""

from __future__ import annotations

import dataclasses
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from components.errors import KfrecError
from components.lifetime import Stopped, start_time
from components.parameters import build, parameters_of
from components.steps.catalog import STEPS
from components.steps.command import argument_parser
from components.steps.parser import chosen
from components.tracking.run import tracked_run
from pipelines.defaults import Pipeline
from pipelines.local import arguments_of
from pipelines.runs.record import FAILED, FINISHED, STOPPED, RunRecord
from pipelines.sweep import local, trial
from pipelines.sweep.local import Best, _search, study_of
from pipelines.sweep.plan import Plan
from pipelines.sweep.trial import Pruned, at_a_time, run_trial, shared_out

# An epoch with the score given, again and again; then, if there are three, the result.
_STEP = """
import json, sys, time
say = lambda **event: print(json.dumps(event), flush=True)
print("ordinary output", flush=True)
score, fails = float(sys.argv[1]), sys.argv[2] == "fails"
if fails:
    say(kfrec="error", step="train", message="the loss is nan")
    sys.exit(2)
for epoch in (1, 2, 3):
    say(kfrec="epoch", epoch=epoch, metrics={"validation_auc": score})
    time.sleep(3600 if sys.argv[2] == "hangs" else 0)
say(kfrec="finished", step="train", results={"metrics": {"validation_auc": score}})
"""


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The score is the parameter lr."""

    def command(pipeline: Pipeline, arguments: Mapping[str, Any], *_: object) -> list[str]:
        return [sys.executable, "-c", _STEP, str(arguments["lr"]), arguments.get("does", "")]

    def evaluate(pipeline: Pipeline, arguments: object, tfrecord: str, folder: Path, run_id: str) -> Path:
        (folder / "metrics.json").write_text('{"test_auc": 0.6, "test_auc_low": 0.55}')
        return folder

    monkeypatch.setattr(trial, "_command", command)
    monkeypatch.setattr(local, "evaluate", evaluate)


def tried(folder: Path, is_hopeless: bool = False, **arguments: object) -> dict[str, Any]:
    given = {"lr": 0.7, **arguments}
    return run_trial(Pipeline(model="din"), given, "", folder / "trial", "", lambda epoch, metrics: is_hopeless)


@pytest.mark.usefixtures("step")
def test_a_trial_returns_the_results_and_keeps_its_log(tmp_path: Path) -> None:
    assert tried(tmp_path) == {"validation_auc": 0.7}
    assert (tmp_path / "trial" / "trial.log").read_text() == "ordinary output\n"


@pytest.mark.usefixtures("step")
def test_a_trial_that_is_pruned_ends_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    popen = trial.subprocess.Popen

    class Noted(popen):  # type: ignore[misc, valid-type]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self.pid)

    monkeypatch.setattr(trial.subprocess, "Popen", Noted)
    with pytest.raises(Pruned):
        tried(tmp_path, is_hopeless=True, does="hangs")
    assert not start_time(started[0]), "the step would sleep for an hour"


@pytest.mark.usefixtures("step")
def test_a_trial_that_fails_says_why_and_where_its_log_is(tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=r"the loss is nan; its log is .*trial\.log"):
        tried(tmp_path, does="fails")


def test_a_trials_command_is_one_that_the_train_step_takes(tmp_path: Path) -> None:
    pipeline = Pipeline(model="din", task="click")
    arguments = arguments_of(pipeline, {"lr": 0.02, "amp": True, "train_seed": 3}, tmp_path)
    _, _, module, *words = trial._command(pipeline, shared_out(arguments, 2), "records", tmp_path / "model")
    step = STEPS[module.removeprefix("components.")]
    given = vars(argument_parser(step, chosen(step, words)).parse_args(words))
    own = {p.name: given[p.name] for p in parameters_of(step.parameters(pipeline.choices)) if given[p.name] is not None}
    built: Any = build(step.parameters(pipeline.choices), own)
    assert (built.lr, built.amp, built.seed, built.model_type) == (0.02, True, 3, "din")
    assert built.affinity == "disabled" and given["tfrecord"] == "records"


def searched(plan: Plan, folder: Path, minutes: float | None = None, **arguments: object) -> tuple[Best, Any, Any]:
    """What a search comes to, its study, and its runs in MLflow."""
    record = RunRecord(folder, plan.pipeline, {}, "")
    study = study_of(plan, folder)
    with tracked_run(f"sweep {folder.name}", title="sweep") as parent:
        best = _search(plan, study, record, {"workers": 1, **arguments}, "", parent, minutes)
        experiment = parent.client.get_run(parent.id).info.experiment_id
        runs = parent.client.search_runs([experiment], f"tags.mlflow.parentRunId = '{parent.id}'")
    return best, study, runs


_PLAN = Plan("din", search={"lr": {"low": 0.1, "high": 0.9}}, parameters={"epochs": 3}, trials=8, parallel=1)


@pytest.mark.slow
@pytest.mark.usefixtures("step", "store")
def test_the_best_trial_wins_and_the_bad_ones_are_pruned(tmp_path: Path) -> None:
    plan = dataclasses.replace(_PLAN, prune_after=2)
    best, study, runs = searched(plan, tmp_path)
    scores = {each.number: each.params["lr"] for each in study.trials}
    assert best.trial == max(scores, key=scores.__getitem__) and best.score == scores[best.trial]
    assert best.test == 0.6
    assert best.command == f"kfrec run --model din --set epochs=3 --set lr={scores[best.trial]}"
    states = [each.state.name for each in study.trials]
    assert states[:2] == ["COMPLETE", "COMPLETE"] and "PRUNED" in states
    assert sorted(int(run.data.tags["kfrec.trial"]) for run in runs) == list(range(8))
    pruned = {int(run.data.tags["kfrec.trial"]) for run in runs if "kfrec.trial.pruned" in run.data.tags}
    assert pruned == {each.number for each in study.trials if each.state.name == "PRUNED"}


@pytest.mark.slow
@pytest.mark.usefixtures("step", "store")
def test_the_same_seed_proposes_the_same_values(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    plan = dataclasses.replace(_PLAN, trials=3)
    first, second = (searched(plan, tmp_path / name)[1].trials for name in ("a", "b"))
    assert [each.params for each in first] == [each.params for each in second]


@pytest.mark.usefixtures("step", "store")
def test_a_small_grid_is_walked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = dataclasses.replace(_PLAN, search={"lr": {"choices": (0.3, 0.6)}}, trials=5, prune=False)
    best, study, _ = searched(plan, tmp_path)
    assert [each.params["lr"] for each in study.trials] == [0.3, 0.6] and best.score == 0.6
    first, _ = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"trial 0    validation AUC 0\.3000  3 epochs, \d+\.\d s  lr=0\.3", first)
    assert best.remarks == ()


@pytest.mark.slow
@pytest.mark.usefixtures("step", "store")
def test_parameters_that_were_tried_are_not_drawn_again(tmp_path: Path) -> None:
    search = {"lr": {"choices": (0.1, 0.2, 0.3, 0.4, 0.5)}}
    plan = dataclasses.replace(_PLAN, search=search, trials=4, prune=False)
    for seed in range(2):  # four draws of five repeat none with 4 % in both
        (tmp_path / f"{seed}").mkdir()
        _, study, runs = searched(dataclasses.replace(plan, seed=seed), tmp_path / f"{seed}")
        done = [each.params["lr"] for each in study.trials if each.state.name == "COMPLETE"]
        assert len(done) == len(set(done)) == len(runs) == 4


@pytest.mark.usefixtures("step", "store")
def test_no_trial_begins_after_the_minutes(tmp_path: Path) -> None:
    best, study, _ = searched(dataclasses.replace(_PLAN, trials=50), tmp_path, minutes=0.001)
    assert best.trial == 0 and len(study.trials) < 50


@pytest.mark.usefixtures("step", "store")
def test_a_sweep_of_which_every_trial_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match="every trial failed; their logs are in"):
        searched(dataclasses.replace(_PLAN, trials=2), tmp_path, does="fails")


@pytest.mark.slow
@pytest.mark.usefixtures("step", "store")
def test_a_sweep_that_was_ended_repeats_no_finished_trial_and_tries_the_others_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = local.run_trial, 0

    def ends_the_third(*arguments: Any) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise Stopped(signal.SIGTERM)
        return real(*arguments)

    plan = dataclasses.replace(_PLAN, trials=5, prune=False)
    monkeypatch.setattr(local, "run_trial", ends_the_third)
    with pytest.raises(Stopped):
        searched(plan, tmp_path)
    _, study, _ = searched(plan, tmp_path)
    found = {each.number: (each.state.name, each.params["lr"]) for each in study.trials}
    assert [state for state, _ in found.values()] == [
        "COMPLETE",
        "COMPLETE",
        "FAIL",
        "COMPLETE",
        "COMPLETE",
        "COMPLETE",
    ]
    assert found[3][1] == found[2][1] and len({value for _, value in found.values()}) == 5
    calls = 3
    best, study, _ = searched(plan, tmp_path)
    assert calls == 3 and len(study.trials) == 6 and best.trial in found
    searched(dataclasses.replace(plan, trials=6), tmp_path)
    assert calls == 4


def test_a_sweep_goes_on_only_with_the_same_plan_and_data(tmp_path: Path) -> None:
    for name, state in (("1", STOPPED), ("2", FAILED), ("3", FINISHED)):
        (tmp_path / name).mkdir()
        RunRecord(tmp_path / name, _PLAN.pipeline, {}, "", state=state).write()
        (tmp_path / name / local.PLAN).write_text(local._identity(_PLAN))
    for plan in (_PLAN, dataclasses.replace(_PLAN, trials=99, parallel=2)):
        found = local.ended_sweep(plan, tmp_path)
        assert found is not None and found.name == "2"
    assert local.ended_sweep(dataclasses.replace(_PLAN, seed=1), tmp_path) is None
    assert local.ended_sweep(_PLAN, tmp_path, RunRecord(tmp_path / "4", _PLAN.pipeline, {}, "")) is None


def test_groups_are_not_cut_by_the_metric_that_trials_are_judged_by() -> None:
    plan = Plan("wide_and_deep")
    assert (plan.primary.name, plan.metric_name) == ("map", "validation_auc")


def test_trials_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert (at_a_time(0, 1), at_a_time(0, 4), at_a_time(3, 1)) == (8, 2, 3)
    given = {"workers": 2, "affinity": "socket", "intra_op_parallelism": 0, "num_parallel_calls": 3}
    assert shared_out(given, 1) == given
    assert shared_out(given, 2) == given | {"affinity": "disabled", "intra_op_parallelism": 2}
