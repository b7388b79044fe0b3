"""Every parameter of every step, of the worker and of the pipelines, with values that cannot be meant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from components import registry
from components.steps.catalog import STEPS, worker_parameters
from components.steps.parameter import Parameter, parameters_of
from pipelines.defaults import PIPELINES, Pipeline
from pipelines.parameters import pipeline_parameters
from tests.harm.place import folders_of, run_here

_NEVER = {
    int: ["x", "1.5", "nan", "inf", "1e400", "9" * 20, "-" + "9" * 20, ""],
    float: ["x", "nan", "inf", "-inf", "1e999", "", "1,5"],
    bool: ["maybe", "2", "-1"],
    tuple: ["x", "1;2", "1.5", "9" * 20, "1,-1"],
}


def bad_values(parameter: Parameter) -> Iterator[str]:
    """Values that a parameter must refuse, by its type and its bounds."""
    yield from _NEVER.get(parameter.value_type, ())
    if parameter.at_least is not None:
        yield str(parameter.at_least - 1)
    if parameter.largest is not None:
        yield str(parameter.largest + 1)
    if parameter.choices:
        yield from ("other", parameter.choices[0].upper(), f"{parameter.choices[0]} ")
    if parameter.is_quantity:
        yield from ("lots", "-1", "8 Gi", "1e", "Gi")
    if parameter.value_type is str and parameter.default:
        yield from ("", " ")


STEP_CASES = [
    pytest.param(step, parameter.name, value, id=f"{step}-{parameter.name}={value[:12]}")
    for step in STEPS
    for parameter in parameters_of(STEPS[step].parameters())
    for value in bad_values(parameter)
]
_GROUPS = {"dataset": registry.DATASETS, "model_type": registry.MODELS, "task": registry.TASKS}
# What the data sets, models and tasks that are not the defaults add to a step.
ADDED_CASES = [
    pytest.param(name, added, parameter.name, value, id=f"{name}-{added}-{parameter.name}={value[:12]}")
    for name, step in STEPS.items()
    if step.added
    for added in registry.names(_GROUPS[step.chosen_by[0]])
    if added != vars(step.of())[step.chosen_by[0]]
    for group in step.added(added, *([""] * (len(step.chosen_by) - 1)))
    for parameter in parameters_of(group)
    for value in bad_values(parameter)
]
WORKER_CASES = [
    pytest.param(parameter.name, value, id=f"{parameter.name}={value[:12]}")
    for parameter in parameters_of(worker_parameters("sim"))
    for value in bad_values(parameter)
]
PIPELINE_CASES = [
    pytest.param(pipeline, name, value, id=f"{pipeline}-{name}={value[:12]}")
    for pipeline in PIPELINES
    for name, parameter in pipeline_parameters(Pipeline(pipeline)).items()
    for value in bad_values(parameter)
]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_there_are_enough_of_them() -> None:
    assert len(STEP_CASES) + len(WORKER_CASES) + len(PIPELINE_CASES) >= 900


@pytest.mark.parametrize(("step", "name", "value"), STEP_CASES)
def test_a_step_refuses_it(step: str, name: str, value: str, capfd: pytest.CaptureFixture[str]) -> None:
    outcome = run_here([step, *folders_of(step), f"--{name}={value}"], capfd)
    assert not outcome.surprise(step, name, value.strip())


@pytest.mark.parametrize(("step", "added", "name", "value"), ADDED_CASES)
def test_a_step_refuses_it_of_any_data_set_model_and_task(
    step: str, added: str, name: str, value: str, capfd: pytest.CaptureFixture[str]
) -> None:
    chosen = f"--{STEPS[step].chosen_by[0]}={added}"
    outcome = run_here([step, *folders_of(step), chosen, f"--{name}={value}"], capfd)
    assert not outcome.surprise(step, name, value.strip())


@pytest.mark.parametrize(("name", "value"), WORKER_CASES)
def test_a_worker_refuses_it(name: str, value: str, capfd: pytest.CaptureFixture[str]) -> None:
    outcome = run_here(["worker", "--dataset_dir=data", f"--{name}={value}"], capfd)
    assert not outcome.surprise("train", name, value.strip())


@pytest.mark.parametrize(("pipeline", "name", "value"), PIPELINE_CASES)
def test_a_run_refuses_it_before_anything_is_made(
    pipeline: str, name: str, value: str, capfd: pytest.CaptureFixture[str]
) -> None:
    outcome = run_here(["kfrec", "run", "--pipeline", pipeline, "--set", f"{name}={value}"], capfd)
    assert not outcome.surprise(name, value.strip())
