"""A task, a data set and a model bring defaults of any step's parameters; equal names have one meaning."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from components import registry
from components.errors import KfrecError
from components.parameters import param, parameters_of
from components.steps.catalog import STEPS, worker_parameters
from pipelines.defaults import RETRAINING, TRAINING, Pipeline, local_defaults
from pipelines.parameters import pipeline_parameters


@pytest.fixture
def bring(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Gives every model, every data set or every task other defaults."""
    return lambda kind, **defaults: _replace(monkeypatch, kind, defaults=defaults)


@pytest.fixture
def declare(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Gives every model, data set or task other dataclasses of parameters: group to names and declarations."""

    def declare(kind: str, **groups: dict[str, Any]) -> None:
        made = {
            group: dataclasses.make_dataclass(
                group.title(), [(name, int, declared) for name, declared in fields.items()], frozen=True
            )
            for group, fields in groups.items()
        }
        _replace(monkeypatch, kind, **made)

    return declare


def _replace(monkeypatch: pytest.MonkeyPatch, kind: str, **changes: Any) -> None:
    load = getattr(registry, kind)
    for place in ("components.steps.catalog", "components.registry"):
        monkeypatch.setattr(f"{place}.{kind}", lambda name: dataclasses.replace(load(name), **changes))


def defaults_of(pipeline: Pipeline) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in pipeline_parameters(pipeline).items()}


def default(pipeline: Pipeline, name: str) -> Any:
    return defaults_of(pipeline)[name]


def local(pipeline: Pipeline, name: str) -> Any:
    return pipeline_parameters(pipeline, local_defaults(pipeline))[name].default


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


def test_the_last_of_step_task_data_set_model_and_place_wins(
    bring: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, name = Pipeline(TRAINING, "din"), "global_batch_size"
    assert (default(pipeline, name), local(pipeline, name)) == (131_072, 1024)
    _replace(monkeypatch, "model", defaults={}, local_defaults={})
    assert default(pipeline, name) == local(pipeline, name) == 1024
    for kind, size in (("task", 11), ("dataset", 22)):
        bring(kind, global_batch_size=size)
        assert default(pipeline, name) == local(pipeline, name) == size
    own: dict[str, Any] = {"defaults": {name: 33}, "local_defaults": {}}
    _replace(monkeypatch, "model", **own)
    assert default(pipeline, name) == local(pipeline, name) == 33
    _replace(monkeypatch, "dataset", local_defaults={name: 44})
    assert (default(pipeline, name), local(pipeline, name)) == (33, 44)
    _replace(monkeypatch, "model", **own | {"local_defaults": {name: 55}})
    assert (default(pipeline, name), local(pipeline, name)) == (33, 55)
    on_data = {"amazon_reviews": {name: 66}}
    _replace(monkeypatch, "model", **own, dataset_defaults=on_data)
    assert default(pipeline, name) == local(pipeline, name) == 66


def test_a_default_is_named_as_in_the_pipeline(bring: Callable[..., None]) -> None:
    bring("model", tfrecord_workers=3)
    found = defaults_of(Pipeline(TRAINING, "din"))
    assert (found["tfrecord_workers"], found["workers"], found["preprocess_workers"]) == (3, 1, 0)


def test_an_owners_default_holds_in_a_retraining_too(bring: Callable[..., None]) -> None:
    pipeline = Pipeline(RETRAINING, "din")
    assert default(pipeline, "out_of_vocabulary_limit") == 0.05
    bring("dataset", out_of_vocabulary_limit=0.2)
    assert default(pipeline, "out_of_vocabulary_limit") == local(pipeline, "out_of_vocabulary_limit") == 0.2


@pytest.mark.parametrize("kind", ["task", "dataset", "model"])
def test_a_default_out_of_range_is_refused(bring: Callable[..., None], kind: str) -> None:
    bring(kind, epochs=0)
    with pytest.raises(KfrecError, match=r"(task click|data set amazon_reviews|model din): wrong default: .*epochs=0"):
        defaults_of(Pipeline(TRAINING, "din"))


@pytest.mark.parametrize("kind", ["dataset", "model"])
def test_a_local_default_of_no_parameter_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _replace(monkeypatch, kind, local_defaults={"epoch": 2})
    with pytest.raises(KfrecError, match=r"(data set amazon_reviews|model din) on this machine: no parameter epoch is"):
        local_defaults(Pipeline(TRAINING, "din"))


OWN = param(3, "Of its owner", at_least=1)


@pytest.mark.parametrize(
    ("kind", "group", "name", "told"),
    [
        ("model", "parameters", "samples_per_shard", "model din .* samples_per_shard, which step tfrecord declares"),
        ("model", "parameters", "seed", "model din .* seed, which step download declares"),
        ("model", "parameters", "mode", "model din .* mode, which training worker declares"),
        ("model", "parameters", "test_days", "model din .* test_days, which data set amazon_reviews declares"),
        ("dataset", "sampling", "epochs", "data set amazon_reviews .* epochs, which step train declares"),
        ("task", "evaluation", "run_id", "task click .* run_id, which step train declares"),
    ],
)
def test_a_name_that_another_declares_differently_is_refused(
    kind: str, group: str, name: str, told: str, declare: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "test_days":
        declare("dataset", sampling={name: param(9, "Of the data set")})
    declare(kind, **{group: {name: OWN}})
    with pytest.raises(KfrecError, match=f"{told} differently; rename it in .*, or give it a pipeline_name"):
        defaults_of(Pipeline(TRAINING, "din"))


def test_one_owner_may_declare_one_parameter_in_several_steps(declare: Callable[..., None]) -> None:
    declare("task", training={"top_k": OWN}, evaluation={"top_k": OWN})
    assert default(Pipeline(TRAINING, "din"), "top_k") == 3
    declare("task", training={"top_k": OWN}, evaluation={"top_k": param(4, "Of its owner", at_least=1)})
    with pytest.raises(KfrecError, match="task click declares the parameter top_k, which task click declares diff"):
        defaults_of(Pipeline(TRAINING, "din"))


@pytest.mark.parametrize("kind", ["task", "dataset", "model"])
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
