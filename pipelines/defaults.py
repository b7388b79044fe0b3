"""The pipelines, and the defaults that their parameters have on this machine and on a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from components import registry
from components.parameters import MODEL as _MODEL
from components.steps.catalog import STEPS, chosen_layers, defaults_by

TRAINING, RETRAINING, INCREMENTAL = "training", "retraining", "incremental"
PREDICTION, RECOMMENDATION, FEEDBACK = "prediction", "recommendation", "feedback"
MODEL: str = _MODEL.default
# Sizes of data on a cluster: published ones, which need GPUs, and up to some million samples, which need none.
LARGE, SMALL = SIZES = ("large", "small")
_SMALL_PODS = {"gpus_per_worker": 0, "pod_cpu": "2", "pod_memory": "8Gi", "shared_memory": "1Gi"}
# Steps of pipelines of their own, which use a model.
_USING = ("predict", "recommend", "feedback")
# The steps of each kind of pipeline, in order.
PIPELINES: Mapping[str, tuple[str, ...]] = {
    TRAINING: tuple(name for name in STEPS if name not in ("find", *_USING)),
    **dict.fromkeys((RETRAINING, INCREMENTAL), tuple(name for name in STEPS if name not in _USING)),
    PREDICTION: ("predict",),
    RECOMMENDATION: ("download", "recommend"),
    FEEDBACK: ("feedback",),
}
# The steps of a refit, in order: those of a training that run again with everything. ``OF_REFIT`` begins their names
# among the steps of a run.
REFIT = ("preprocess", "tfrecord", "train", "register")
OF_REFIT = "refit "
# Kinds that do not depend on the model: the registry names it. A recommendation reads the files of its data set.
OF_ANY_MODEL = (PREDICTION, RECOMMENDATION, FEEDBACK)


class Pipeline(NamedTuple):
    """A pipeline: a kind, a model, and optionally another data set or task than the model's own.

    All models share the prediction pipeline, and those of a data set the recommendation pipeline.

    Attributes:
        kind: one of PIPELINES.
        dataset: name of the data set; empty is the model's own.
        task: name of the task that evaluates it; empty is the model's own.
    """

    kind: str = TRAINING
    model: str = MODEL
    dataset: str = ""
    task: str = ""

    @property
    def name(self) -> str:
        """The name of its file, such as ``sim-training``, or ``sim-tabular-training`` with another data set."""
        of_any = (self.choices["dataset"],) if self.kind == RECOMMENDATION else ()
        chosen = of_any if self.kind in OF_ANY_MODEL else (self.model, self.dataset, self.task)
        parts = (*chosen, self.kind)
        return "-".join(part.replace("_", "-") for part in parts if part)

    @property
    def kfp_name(self) -> str:
        return f"kfrec-{self.name}"

    @property
    def choices(self) -> dict[str, str]:
        """The values of the parameters that select its model, data set and task."""
        model = registry.model(self.model)
        return {"model_type": self.model, "task": self.task or model.task, "dataset": self.dataset or model.dataset}

    @property
    def grows(self) -> bool:
        """Whether the vocabulary of its data set can grow."""
        return registry.dataset(self.choices["dataset"]).grows

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of pipelines with the same choices."""
        return tuple(kind for kind in PIPELINES if kind != INCREMENTAL or self.grows)

    def of_kind(self, kind: str) -> Pipeline:
        """The pipeline of another kind with the same choices."""
        return self._replace(kind=kind)

    @property
    def steps(self) -> tuple[str, ...]:
        return PIPELINES[self.kind]


def every_pipeline() -> list[Pipeline]:
    """The pipelines of all installed models, and those that lists of all data sets with histories need."""
    models = registry.names(registry.MODELS)
    each = [Pipeline(kind, name) for name in models for kind in Pipeline(model=name).kinds if kind not in OF_ANY_MODEL]
    listed = [name for name in registry.names(registry.DATASETS) if registry.dataset(name).histories is not None]
    return [
        *each,
        Pipeline(PREDICTION),
        *(Pipeline(RECOMMENDATION, dataset=name) for name in listed),
        Pipeline(FEEDBACK),
    ]


# Parameters that the find step sets, not the user, by the kind of pipeline.
_DECIDED = tuple(name for name in STEPS["find"].results if name != "proceed")
DECIDED: Mapping[str, tuple[str, ...]] = {
    RETRAINING: tuple(name for name in _DECIDED if name not in ("files", "continue_path")),
    INCREMENTAL: _DECIDED,
}


def layers(pipeline: Pipeline, here: bool = False) -> list[tuple[str, Mapping[str, Any]]]:
    """The defaults that a pipeline has in place of the steps', and whose they are; later ones win.

    The order is: the pipeline's, the task's, the data set's, the model's, those of the place, and the model's for the
    data set, which hold in every place. A training that is continued is no refit, whatever the task's default.

    Args:
        here: whether it runs on this machine. Published sizes and rates suit batches of many GPUs; these suit up to
            some million samples.
    """
    data, model = registry.dataset(pipeline.choices["dataset"]), registry.model(pipeline.model)
    of_place = (
        (f"data set {data.name} on this machine", data.local_defaults if here else {}),
        (f"model {model.name} on this machine", model.local_defaults if here else {}),
        (f"model {model.name} on {data.name}", model.dataset_defaults.get(data.name, {})),
        (f"pipeline {pipeline.kind}", _CONTINUED if pipeline.kind == INCREMENTAL else {}),
    )
    return [
        (f"pipeline {pipeline.kind}", PIPELINE_DEFAULTS[pipeline.kind]),
        *chosen_layers(pipeline.choices),
        *((whose, defaults_by(whose, values, pipeline.choices)) for whose, values in of_place),
    ]


def local_defaults(pipeline: Pipeline) -> dict[str, Any]:
    """Defaults of runs on this machine by pipeline parameter; see ``layers``."""
    return _merged(layers(pipeline, here=True))


def whose_defaults(pipeline: Pipeline) -> dict[str, str]:
    """Parameter to whose default ``kfrec run`` has, where it is not the step's: of a model, say, or a data set."""
    return {name: whose for whose, layer in layers(pipeline, here=True) for name in layer}


def pipeline_defaults(pipeline: Pipeline) -> dict[str, Any]:
    """Defaults by pipeline parameter, wherever the pipeline runs; see ``layers``."""
    return _merged(layers(pipeline))


def cluster_defaults(pipeline: Pipeline, size: str = LARGE) -> dict[str, Any]:
    """Defaults of runs on a cluster by pipeline parameter.

    Args:
        size: of the data, LARGE or SMALL; for the latter those of this machine, and pods without GPUs.
    """
    return {**(local_defaults(pipeline) | _SMALL_PODS if size == SMALL else {}), "launcher": "mpijob"}


def _merged(layers: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    return {name: value for _, layer in layers for name, value in layer.items()}


_CONTINUED: Mapping[str, Any] = {"refit": False}
# Successive data versions share most items; beyond this share of new items, the old vocabulary would hide them.
PIPELINE_DEFAULTS: Mapping[str, dict[str, Any]] = {
    TRAINING: {},
    RETRAINING: {"out_of_vocabulary_limit": 0.05, "refit": True},
    INCREMENTAL: {"full_every": 7, "vocabulary_slack": 0.5},
    PREDICTION: {},
    RECOMMENDATION: {},
    FEEDBACK: {},
}
