"""A task and a model bring defaults of any step's parameters."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from components import registry
from components.errors import KfrecError
from components.steps.catalog import STEPS, worker_parameters
from components.steps.parameter import parameters_of
from pipelines.defaults import RETRAINING, TRAINING, Pipeline, local_defaults
from pipelines.parameters import pipeline_parameters


@pytest.fixture
def bring(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Gives every model or every task other defaults."""

    def bring(kind: str, **defaults: Any) -> None:
        load = getattr(registry, kind)
        monkeypatch.setattr(
            f"components.steps.catalog.steps.{kind}",
            lambda name: dataclasses.replace(load(name), defaults=defaults),
        )

    return bring


def defaults_of(pipeline: Pipeline) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in pipeline_parameters(pipeline).items()}


@pytest.mark.parametrize("kind", [TRAINING, RETRAINING])
def test_a_tasks_default_holds_in_a_pipeline(bring: Callable[..., None], kind: str) -> None:
    bring("task", registered_model="in-seconds", promotion_margin=5.0)
    found = defaults_of(Pipeline(kind, "din"))
    assert (found["registered_model"], found["promotion_margin"]) == ("in-seconds", 5.0)


@pytest.mark.parametrize("step", ["find", "train", "register"])
def test_a_models_default_overrides_the_tasks_in_every_step(bring: Callable[..., None], step: str) -> None:
    bring("task", registered_model="of-the-task")
    assert STEPS[step].of(task="click").registered_model == "of-the-task"
    bring("model", registered_model="of-the-model")
    assert STEPS[step].of(task="click", model_type="din").registered_model == "of-the-model"
    assert defaults_of(Pipeline(RETRAINING, "din"))["registered_model"] == "of-the-model"


def test_defaults_of_other_steps_do_not_disturb_the_worker(bring: Callable[..., None]) -> None:
    bring("task", promotion_margin=5.0, checkpoint_steps=7)
    found = {parameter.name: parameter.default for parameter in parameters_of(worker_parameters("din"))}
    assert found["checkpoint_steps"] == 7 and "promotion_margin" not in found


@pytest.mark.parametrize("kind", ["task", "model"])
def test_a_default_of_no_parameter_is_refused(bring: Callable[..., None], kind: str) -> None:
    bring(kind, registerd_model="x")
    with pytest.raises(KfrecError, match="no parameter registerd_model is declared, so it has no default 'x'"):
        defaults_of(Pipeline(TRAINING, "din"))


def test_the_models_of_different_tasks_have_different_names() -> None:
    tasks = registry.names(registry.TASKS)
    names = {task: STEPS["register"].of(task=task).registered_model for task in tasks}
    for one, other in itertools.combinations(tasks, 2):
        assert names[one] != names[other]


@pytest.mark.parametrize("model", registry.names(registry.MODELS))
def test_every_place_has_the_same_name_for_a_model(model: str) -> None:
    chosen = {"model_type": model, "task": registry.model(model).task}
    names = {STEPS[step].of(**chosen).registered_model for step in ("find", "train", "register")}
    for kind in (TRAINING, RETRAINING):
        pipeline = Pipeline(kind, model)
        names.add(pipeline_parameters(pipeline, local_defaults(pipeline))["registered_model"].default)
    assert len(names - {""}) == 1


def test_predictions_are_by_the_champion_of_the_default_model_unless_told_otherwise() -> None:
    assert STEPS["predict"].of().model_version == f"{STEPS['register'].of().registered_model}@champion"
