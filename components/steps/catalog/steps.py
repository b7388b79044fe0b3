"""The steps: their parameters, with those that a data set, model or task brings, their inputs and outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from components.errors import KfrecError
from components.registry import dataset, model, task
from components.steps.catalog.data import (
    DownloadParameters,
    FindParameters,
    PreprocessParameters,
    TfrecordParameters,
)
from components.steps.catalog.judging import EvaluateParameters, RegisterParameters
from components.steps.catalog.predicting import PredictParameters
from components.steps.catalog.training import LaunchParameters, WorkerParameters
from components.steps.parameter import joined


class AddedParameters(NamedTuple):
    """The parameters that a data set, model or task adds to a step.

    Attributes:
        parameters: dataclasses of its own parameters.
        defaults: other defaults of the step's parameters, by name.
    """

    parameters: tuple[type, ...]
    defaults: Mapping[str, Any] = MappingProxyType({})


def _added_by_model(name: str, judge: str) -> AddedParameters:
    """The model's parameters, and those that the task has for the train step; an empty task is the model's own."""
    definition = model(name)
    return AddedParameters((definition.parameters, task(judge or definition.task).training), definition.defaults)


def worker_parameters(model_type: str, task: str = "") -> type:
    """The parameters of a Horovod process that trains ``model_type``, with the metrics of ``task``.

    Raises:
        KfrecError: there is no such model or task.
    """
    return _joined_by({"model_type": model_type, "task": task}, _added_by_model, WorkerParameters)


def _joined_by(chosen: Mapping[str, str], added: Callable[..., AddedParameters], own: type) -> type:
    try:
        parameters, defaults = added(*chosen.values())
        return joined(*parameters, own, defaults=tuple(defaults.items()))
    except KfrecError as error:
        first = next(iter(chosen))
        choices = ", ".join(f"{parameter}={name!r}" for parameter, name in chosen.items() if name or parameter == first)
        raise KfrecError(f"parameter {choices}: {error}") from None


@dataclass(frozen=True)
class Step:
    """A step of the workflow.

    Attributes:
        name: folder under components/ and name of the KFP task.
        summary: one sentence for --help and the KFP UI.
        own: its dataclass of parameters.
        inputs: folders it reads, name to description.
        outputs: folders it writes, name to description.
        rows: names of the counts that add up to its output rows, as far as they are returned; empty is the first one.
        results: its other return values, name to type; outputs of its KFP component.
        shown: outputs of its KFP component that the UI draws, name to KFP's type; its module ``visualise`` fills them.
        chosen_by: the parameters that select a data set, model or task with its own parameters, such as model_type.
        added: takes their values and returns these parameters.
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
    added: Callable[..., AddedParameters] | None = None
    varying: tuple[str, ...] = ()

    def parameters(self, chosen: Mapping[str, Any] | None = None) -> type:
        """The dataclass of all its parameters.

        Args:
            chosen: values by name; only the one of ``chosen_by`` is used.

        Raises:
            KfrecError: nothing has that name.
        """
        if self.added is None:
            return self.own
        defaults = {field.name: field.default for field in dataclasses.fields(self.own)}
        names = {name: str((chosen or {}).get(name, defaults[name])) for name in self.chosen_by}
        return _joined_by(names, self.added, self.own)

    def of(self, **values: Any) -> Any:
        """Its parameters with these values, unchecked."""
        return self.parameters(values)(**values)


RAW = "the data set's raw files"
PARQUET = "samples in parquet, cardinalities, and the fitted workflow's vocabulary"
TFRECORD = "record files with feature_spec.yaml"
MODEL = "SavedModel, checkpoint, training log"
EVALUATION = "metrics.json, predictions, curves and report.html"
REGISTRATION = "registration.json: version, alias and reason, and decision.html"
PREDICTIONS = "the files of rows with the scores in further columns, and prediction.json"
CHAMPION = "the champion's model, or a note that no champion exists"

# Counts of samples; data need no validation split.
SPLITS = ("train", "test", "validation")

STEPS: dict[str, Step] = {
    step.name: step
    for step in (
        Step("find", "Find the newest data and decide whether to train on it.",
             FindParameters, {}, {"champion": CHAMPION}, ("versions",),
             {"proceed": bool, "occasion": str, "source": str, "data_version": str, "workflow": str,
              "warm_start_path": str, "reference_profile": str}),
        Step("download", "Fetch raw files, or generate synthetic ones.",
             DownloadParameters, {}, {"raw": RAW}, (),
             {}, {}, ("dataset",), lambda name: AddedParameters((dataset(name).generation,))),
        Step("preprocess", "Convert raw files to training samples with NVTabular.",
             PreprocessParameters, {"raw": RAW}, {"parquet": PARQUET}, SPLITS,
             {}, {}, ("dataset",), lambda name: AddedParameters((dataset(name).sampling,))),
        Step("tfrecord", "Convert samples in parquet to shuffled TFRecord files.",
             TfrecordParameters, {"parquet": PARQUET}, {"tfrecord": TFRECORD}, SPLITS),
        Step("train", "Train a model with Horovod and export it.",
             LaunchParameters, {"tfrecord": TFRECORD}, {"model": MODEL}, ("train",),
             {"trained_model": str, "metrics": dict}, {}, ("model_type", "task"), _added_by_model,
             ("training.json", "parameters.json", "log.json", "worker.log", "checkpoint/*", "saved_model/*.pb")),
        Step("evaluate", "Score the test split and report metrics.",
             EvaluateParameters, {"tfrecord": TFRECORD, "model": MODEL}, {"evaluation": EVALUATION}, ("test",),
             {}, {"metrics": "Metrics", "classification_metrics": "ClassificationMetrics", "report": "HTML"},
             ("task",), lambda name: AddedParameters((task(name).evaluation,)), ("report.html",)),
        Step("register", "Register the model and promote it if it beats the champion.",
             RegisterParameters, {"tfrecord": TFRECORD, "model": MODEL, "evaluation": EVALUATION},
             {"registration": REGISTRATION}, ("models",),
             {}, {"decision": "HTML"}, ("task",), lambda name: AddedParameters((task(name).decision,)),
             ("registration.json", "decision.html")),
        Step("predict", "Score files of raw rows with a registered model.",
             PredictParameters, {}, {"predictions": PREDICTIONS}, ("rows",)),
    )
}  # fmt: skip
