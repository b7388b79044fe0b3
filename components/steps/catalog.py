"""The single definition of every step: its parameters, with those of a data set, model or task, inputs and outputs.

The command lines, the KFP components, the pipeline's inputs and the docs are generated from it. Names and defaults of
the training parameters are those of the public SIM documentation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from components.datasets.parameters import PreprocessParameters
from components.errors import KfrecError
from components.parameters import Parameter, joined, parameters_of, pipeline_name
from components.registry import dataset, model, task
from components.steps.parameters import (
    DownloadParameters,
    EvaluateParameters,
    FeedbackParameters,
    FindParameters,
    PredictParameters,
    RecommendParameters,
    RegisterParameters,
    TfrecordParameters,
)
from components.steps.training_parameters import LaunchParameters, WorkerParameters

# The parameters that select what brings defaults to every step.
_MODEL_TYPE, _TASK, _DATASET = "model_type", "task", "dataset"


class Owner(NamedTuple):
    """A task, a data set or a model, as the owner of parameters.

    Attributes:
        name: such as "model sim".
    """

    name: str
    groups: tuple[type, ...]
    defaults: Mapping[str, Any]


def _added_by_model(name: str, judge: str) -> tuple[type, ...]:
    """The model's parameters, and those that the task has for the train step; an empty task is the model's own."""
    definition = model(name)
    return definition.parameters, task(judge or definition.task).training


def worker_parameters(model_type: str, task: str = "") -> type:
    """The parameters of a Horovod process that trains ``model_type``, with the metrics of ``task``.

    Raises:
        KfrecError: there is no such model or task.
    """
    chosen = {_MODEL_TYPE: model_type, _TASK: task}
    return _joined(WorkerParameters, _added_by_model, chosen, chosen)


def _joined(
    own: type, added: Callable[..., tuple[type, ...]] | None, selecting: Mapping[str, str], chosen: Mapping[str, str]
) -> type:
    """A step's dataclass of parameters, with what is chosen.

    Args:
        added: takes the values of ``selecting`` and returns further dataclasses.
        chosen: names of the model, the data set and the task that bring defaults.
    """
    try:
        groups = (*(added(*selecting.values()) if added else ()), own)
        other = chosen_defaults(chosen)
        named = {each.name: pipeline_name(each) for group in groups for each in dataclasses.fields(group)}
        defaults = {name: other[wide] for name, wide in named.items() if wide in other}
        return joined(*groups, defaults=tuple(defaults.items()))
    except KfrecError as error:
        every = {**selecting, **chosen}
        first = next(iter(every))
        choices = ", ".join(f"{parameter}={name!r}" for parameter, name in every.items() if name or parameter == first)
        raise KfrecError(f"parameter {choices}: {error}") from None


def owners_of(chosen: Mapping[str, str]) -> list[Owner]:
    """The task, the data set and the model that are chosen; the defaults of later ones override those of earlier ones.

    Args:
        chosen: names by parameter: ``model_type``, ``dataset`` and ``task``, of which an empty one is the model's own;
            other names are ignored.
    """
    trained = model(chosen[_MODEL_TYPE]) if chosen.get(_MODEL_TYPE) else None
    judge = chosen.get(_TASK) or (trained.task if trained else "")
    owners = []
    if judge:
        definition = task(judge)
        groups = (definition.training, definition.evaluation, definition.decision)
        owners.append(Owner(f"task {definition.name}", groups, definition.defaults))
    if chosen.get(_DATASET):
        data = dataset(chosen[_DATASET])
        defaults = data.defaults if data.refits else {"refit": False, **data.defaults}
        owners.append(Owner(f"data set {data.name}", (data.generation, data.sampling), defaults))
    if trained:
        owners.append(Owner(f"model {trained.name}", (trained.parameters,), trained.defaults))
    return owners


def chosen_layers(chosen: Mapping[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """The defaults that the chosen task, data set and model bring to every step, by owner; later ones override.

    Raises:
        KfrecError: see ``defaults_by``.
    """
    return [(owner.name, defaults_by(owner.name, owner.defaults, chosen)) for owner in owners_of(chosen)]


def chosen_defaults(chosen: Mapping[str, str]) -> dict[str, Any]:
    """The defaults of ``chosen_layers``, by pipeline name."""
    return {name: value for _, layer in chosen_layers(chosen) for name, value in layer.items()}


def defaults_by(owner: str, defaults: Mapping[str, Any], chosen: Mapping[str, str]) -> dict[str, Any]:
    """Checks an owner's defaults.

    Args:
        owner: for messages, such as "model sim".
        chosen: as for ``owners_of``.

    Raises:
        KfrecError: no step, and no chosen model, data set or task declares a parameter, two of these declare one
            differently, or a value is of the wrong type or out of range.
    """
    declared = _declared(owners_of(chosen))
    values = {}
    for name, value in defaults.items():
        if name not in declared:
            raise KfrecError(f"{owner}: no parameter {name} is declared, so it has no default {value!r}")
        try:
            values[name] = declared[name].parse(value)
        except KfrecError as error:
            raise KfrecError(f"{owner}: wrong default: {error}") from None
    return values


def _declared(owners: Sequence[Owner]) -> dict[str, Parameter]:
    """The parameters of all steps and of ``owners``, by pipeline name.

    Raises:
        KfrecError: a step and an owner, or two owners, declare one differently: it would be one parameter of the
            pipeline, with two meanings.
    """
    steps = [(f"step {step.name}", step.own) for step in STEPS.values()]
    declared: dict[str, list[tuple[str, Parameter]]] = {}
    for name, group in (*steps, ("training worker", WorkerParameters)):
        for parameter in parameters_of(group):
            declared.setdefault(parameter.pipeline_name, []).append((name, parameter))
    for owner in owners:
        for parameter in (parameter for group in owner.groups for parameter in parameters_of(group)):
            others = declared.setdefault(parameter.pipeline_name, [])
            for other, theirs in others:
                if theirs != parameter:
                    raise KfrecError(
                        f"{owner.name} declares the parameter {parameter.pipeline_name}, which {other} declares "
                        f"differently; rename it in {owner.name}, or give it a pipeline_name"
                    )
            others.append((owner.name, parameter))
    return {name: declarations[0][1] for name, declarations in declared.items()}


@dataclass(frozen=True)
class Step:
    """A step of the workflow.

    Attributes:
        name: folder under components/ and name of the KFP task.
        summary: one sentence for --help and the KFP UI.
        rows: names of the counts that add up to its output rows, as far as they are returned; empty is the first one.
        results: its other return values, name to type; outputs of its KFP component.
        shown: outputs of its KFP component that the UI draws, name to KFP's type; ``show`` of its module ``step``
            fills them.
        chosen_by: the parameters that select a data set, model or task with its own parameters or defaults.
        added: takes their values and returns the dataclasses of these parameters, if there are any.
        varying: patterns of output files that differ between otherwise equal runs (times, paths, run ids, versions,
            graph names); a star matches slashes, too.
    """

    name: str
    summary: str
    own: type
    inputs: dict[str, str]
    outputs: dict[str, str]
    rows: tuple[str, ...]
    results: dict[str, type] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)
    chosen_by: tuple[str, ...] = ()
    added: Callable[..., tuple[type, ...]] | None = None
    varying: tuple[str, ...] = ()

    def parameters(self, chosen: Mapping[str, Any] | None = None) -> type:
        """The dataclass of all its parameters.

        Args:
            chosen: values by name; those of ``chosen_by``, of model_type, dataset and task are used.

        Raises:
            KfrecError: nothing has that name.
        """
        choice = chosen or {}
        own = {each.name: each.default for each in dataclasses.fields(self.own)}
        selecting = {name: str(choice.get(name, own[name])) for name in self.chosen_by}
        bringing = {name: str(choice[name]) for name in (_MODEL_TYPE, _TASK, _DATASET) if choice.get(name)}
        return _joined(self.own, self.added, selecting, {**bringing, **selecting})

    def of(self, **values: Any) -> Any:
        """Its parameters with these values, unchecked."""
        return self.parameters(values)(**values)


RAW = "the data set's raw files"
PARQUET = "samples in parquet, cardinalities, and the fitted workflow's vocabulary"
TFRECORD = "record files with feature_spec.yaml"
MODEL = "SavedModel, checkpoint, training log"
EVALUATION = "metrics.json, predictions, curves and report.html"
REGISTRATION = "registration.json: version, alias and reason, decision.html, and card.md"
PREDICTIONS = "the files of rows with the scores in further columns, and prediction.json"
LISTS = "the lists, unless a database has them, left_out.csv and recommendation.json"
FEEDBACK = "labelled rows as raw files of the model's data set, live.json and report.html"
CHAMPION = "the champion's model, or a note that no champion exists"

# Counts of samples; data need no validation split.
SPLITS = ("train", "test", "validation")

STEPS: dict[str, Step] = {
    step.name: step
    for step in (
        Step("find", "Find the newest data and decide whether to train on it.",
             FindParameters, {}, {"champion": CHAMPION}, ("versions",),
             {"proceed": bool, "occasion": str, "source": str, "data_version": str, "workflow": str,
              "warm_start_path": str, "reference_profile": str, "files": str, "continue_path": str},
             {}, ("task", "model_type")),
        Step("download", "Fetch raw files, or generate synthetic ones.",
             DownloadParameters, {}, {"raw": RAW}, (),
             {}, {}, ("dataset",), lambda name: (dataset(name).generation,)),
        Step("preprocess", "Convert raw files to training samples with NVTabular.",
             PreprocessParameters, {"raw": RAW}, {"parquet": PARQUET}, SPLITS,
             {}, {}, ("dataset",), lambda name: (dataset(name).sampling,)),
        Step("tfrecord", "Convert samples in parquet to shuffled TFRecord files.",
             TfrecordParameters, {"parquet": PARQUET}, {"tfrecord": TFRECORD}, SPLITS),
        Step("train", "Train a model with Horovod and export it.",
             LaunchParameters, {"tfrecord": TFRECORD}, {"model": MODEL}, ("train",),
             {"trained_model": str, "metrics": dict}, {}, ("model_type", "task"), _added_by_model,
             ("training.json", "parameters.json", "log.json", "worker.log", "checkpoint/*", "saved_model/*.pb")),
        Step("evaluate", "Score the test split and report metrics.",
             EvaluateParameters, {"tfrecord": TFRECORD, "model": MODEL}, {"evaluation": EVALUATION}, ("test",),
             {}, {"metrics": "Metrics", "classification_metrics": "ClassificationMetrics", "report": "HTML"},
             ("task",), lambda name: (task(name).evaluation,), ("report.html",)),
        Step("register", "Register the model and promote it if it beats the champion.",
             RegisterParameters, {"tfrecord": TFRECORD, "model": MODEL, "evaluation": EVALUATION},
             {"registration": REGISTRATION}, ("models",),
             {"refit": bool, "epochs": int}, {"decision": "HTML"}, ("task", "model_type"),
             lambda name, of: (task(name).decision,),
             ("registration.json", "decision.html", "card.md", "pair.json")),
        Step("predict", "Score files of raw rows with a registered model.",
             PredictParameters, {}, {"predictions": PREDICTIONS}, ("rows",)),
        Step("recommend", "List the items that every user of raw events would most likely choose next.",
             RecommendParameters, {"raw": RAW}, {"lists": LISTS}, ("users",)),
        Step("feedback", "Join served rows with their outcomes, and measure the model's live quality.",
             FeedbackParameters, {}, {"feedback": FEEDBACK}, ("rows",)),
    )
}  # fmt: skip
