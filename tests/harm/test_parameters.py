"""Values that cannot be meant: one parameter of each kind by every way in, and each parameter by itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components import registry
from components.artifacts import adopt
from components.errors import KfrecError
from components.parameters import Parameter, build, parameters_of
from components.steps.catalog import STEPS, worker_parameters
from components.steps.command import component
from pipelines.defaults import INCREMENTAL, PIPELINES, Pipeline
from pipelines.parameters import checked, pipeline_parameters
from tests.harm.place import Outcome, folders_of, outcome_of, run_here

_NEVER = {
    int: ["x", "1.5", "nan", "inf", "1e400", "9" * 20, "-" + "9" * 20, ""],
    float: ["x", "nan", "inf", "-inf", "1e999", "", "1,5"],
    bool: ["maybe", "2", "-1", ""],
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
    if parameter.value_type is str and not parameter.may_be_empty:
        yield from ("", " ")


# One parameter of each kind, of the train step and of its worker.
KINDS = {
    "int": "epochs",
    "float": "validation_share",
    "bool": "amp",
    "tuple": "stage_one_mlp_dims",
    "text": "feature_spec",
    "choice": "optimizer",
    "quantity": "largest_export",
}
_TRAIN = {parameter.name: parameter for parameter in parameters_of(STEPS["train"].parameters())}
CASES = [
    pytest.param(name, value, id=f"{kind}={value[:12]}")
    for kind, name in KINDS.items()
    for value in bad_values(_TRAIN[name])
]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("name", "value"), CASES)
def test_a_step_refuses_it(name: str, value: str, capfd: pytest.CaptureFixture[str]) -> None:
    outcome = run_here(["train", *folders_of("train"), f"--{name}={value}"], capfd)
    assert not outcome.surprise("train", name, value.strip())


@pytest.mark.parametrize(("name", "value"), CASES)
def test_a_run_refuses_it_before_anything_is_made(name: str, value: str, capfd: pytest.CaptureFixture[str]) -> None:
    outcome = run_here(["kfrec", "run", "--set", f"{name}={value}"], capfd)
    assert not outcome.surprise(name, value.strip())


def _in_a_pipeline(step: str, capfd: pytest.CaptureFixture[str], **parameters: str) -> Outcome:
    """The outcome of a step's KFP component."""
    folders = {name: SimpleNamespace(path=name, uri=name) for name in (*STEPS[step].inputs, *STEPS[step].outputs)}
    return outcome_of(lambda: component(step, folders | parameters), capfd)


@pytest.mark.parametrize(("name", "value"), CASES)
def test_a_component_of_a_pipeline_refuses_it(name: str, value: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert not _in_a_pipeline("train", capfd, **{name: value}).surprise("train", name, value.strip())


@pytest.mark.parametrize("name", KINDS.values())
def test_a_worker_refuses_it(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    value = next(bad_values(_TRAIN[name]))
    outcome = run_here(["worker", "--dataset_dir=data", f"--{name}={value}"], capfd)
    assert not outcome.surprise("train", name, value.strip())


@pytest.mark.parametrize("step", STEPS)
def test_every_step_refuses_it(step: str, capfd: pytest.CaptureFixture[str]) -> None:
    name, value = next((p.name, value) for p in parameters_of(STEPS[step].parameters()) for value in bad_values(p))
    assert not run_here([step, *folders_of(step), f"--{name}={value}"], capfd).surprise(step, name, value.strip())
    assert not _in_a_pipeline(step, capfd, **{name: value}).surprise(step, name, value.strip())


_GROUPS = {"dataset": registry.DATASETS, "model_type": registry.MODELS, "task": registry.TASKS}
_CHOSEN_BY = {name: step.chosen_by[0] for name, step in STEPS.items() if step.added}
# One parameter of each data set, model and task that adds some to a step.
ADDED_CASES = [
    pytest.param(name, chosen, *given[0], id=f"{name}-{chosen}-{given[0][0]}")
    for name, step in STEPS.items()
    if step.added
    for chosen in registry.names(_GROUPS[step.chosen_by[0]])
    for added in [step.added(chosen, *([""] * (len(step.chosen_by) - 1)))]
    if (given := [(p.name, value) for group in added for p in parameters_of(group) for value in bad_values(p)])
]


@pytest.mark.parametrize(("step", "chosen", "name", "value"), ADDED_CASES)
def test_a_step_refuses_it_of_the_data_set_model_or_task_that_is_chosen(
    step: str, chosen: str, name: str, value: str, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [step, *folders_of(step), f"--{_CHOSEN_BY[step]}={chosen}", f"--{name}={value}"]
    assert not run_here(words, capfd).surprise(step, name, value.strip())


@pytest.mark.parametrize("place", ["none.yaml", ".", "x" * 300], ids=["missing", "folder", "long"])
def test_a_file_that_cannot_be_read_is_refused(place: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "a.csv").write_text("label,x\n1,2\n")
    adopt(tmp_path / "tables")
    words = ["preprocess", "--dataset=tabular", "--raw=tables", "--parquet=out", f"--schema={place}"]
    assert not run_here(words, capfd).surprise("preprocess", place[:50])


def _groups() -> Iterator[tuple[str, type]]:
    """The parameters of all steps with each data set, model and task, and of the worker."""
    for name, step in STEPS.items():
        yield name, step.parameters()
        for chosen in registry.names(_GROUPS[_CHOSEN_BY[name]]) if name in _CHOSEN_BY else ():
            yield f"{name} of {chosen}", step.parameters({_CHOSEN_BY[name]: chosen})
    yield "worker", worker_parameters("sim")


def _wrong_line(check: Callable[[dict[str, Any]], object], name: str, value: str) -> str:
    """What is wrong with how ``check`` takes a bad value; empty where it refuses it in a line that names both."""
    try:
        check({name: value})
    except KfrecError as error:
        line = str(error)
        named = name in line and value.strip() in line
        return "" if named and "\n" not in line and len(line) <= 700 else f"{name}={value!r}: {line}"
    return f"{name}={value!r} is accepted"


def test_every_parameter_of_every_step_refuses_it() -> None:
    count = 0
    for place, group in _groups():
        for parameter in parameters_of(group):
            for value in bad_values(parameter):
                assert not _wrong_line(lambda values, group=group: build(group, values), parameter.name, value), place  # type: ignore[misc]
                count += 1
    assert count >= 3000


@pytest.mark.parametrize("kind", PIPELINES)
def test_every_parameter_of_a_pipeline_refuses_it_by_its_pipeline_wide_name(kind: str) -> None:
    pipeline = Pipeline(kind, *["dlrm"] * (kind == INCREMENTAL))  # whose data set's vocabulary can grow
    given = [(n, v) for n, p in pipeline_parameters(pipeline).items() for v in itertools.islice(bad_values(p), 1)]
    for name, value in given:
        assert not _wrong_line(lambda values: checked(values, pipeline), name, value)
    assert given
