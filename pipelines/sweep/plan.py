"""The file of a sweep."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from components import registry
from components.errors import KfrecError
from components.parameters import LARGEST_SEED, Parameter, plain, unknown_parameter
from components.settings_file import Several, read_yaml
from components.settings_file import checked as typed
from components.steps.catalog import STEPS
from components.tasks import Metric, TaskDefinition
from pipelines.defaults import MODEL, TRAINING, Pipeline
from pipelines.parameters import checked, pipeline_parameters, step_parameters

# The train step's parameter for the validation samples.
HELD_OUT = "validation_share"
Positive = Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class Katib:
    """Settings for a cluster only.

    Attributes:
        data: training records: a folder in the pods, or a gs://, s3:// or minio:// URI.
        job_settings: file with the cluster's settings of training pods, such as the overlay's mpijob.yaml; empty is
            none.
        image: of the training; empty is that of job_settings, or else kfrec's.
    """

    name: str = "kfrec-sweep"
    namespace: str = "kubeflow"
    data: str = ""
    job_settings: str = ""
    image: str = ""
    gpus: Annotated[int, Field(ge=0, le=1)] = 1


@dataclass(frozen=True)
class Dimension:
    """The search space of a parameter: a range, or choices.

    Attributes:
        log: whether the range is sampled on a logarithmic scale.
    """

    low: float | int | None = None
    high: float | int | None = None
    log: bool = False
    choices: Several[bool | int | float | str] = ()

    def check(self, source: str, parameter: Parameter) -> None:
        """Validates the values against the parameter.

        Raises:
            KfrecError: neither a range nor choices, or values that the parameter does not accept.
        """
        is_range = self.low is not None and self.high is not None
        if is_range == bool(self.choices) or (self.choices and (self.low, self.high) != (None, None)):
            raise KfrecError(f"{source}: write either low and high, or choices")
        for value in self.choices or (self.low, self.high):
            try:
                parameter.parse(value)
            except KfrecError as error:
                raise KfrecError(f"{source}: {error}") from None
        if is_range and parameter.value_type not in (int, float):
            raise KfrecError(f"{source}: {parameter.name} is not a number; write choices")
        if is_range and not self.low < self.high:  # type: ignore[operator]
            raise KfrecError(f"{source}: low {self.low:g} is not below high {self.high:g}; correct it")
        if self.log and (not is_range or self.low <= 0):  # type: ignore[operator]
            raise KfrecError(f"{source}: log needs a range above 0; correct it")


@dataclass(frozen=True)
class Plan:
    """A sweep.

    Attributes:
        dataset: name of the data set; empty is the model's own.
        task: name of the task, which defines the metric; empty is the model's own.
        search: parameter of the train step to its ``Dimension``.
        parallel: concurrent trials; 0 is one core per worker.
        prune: whether to stop a trial with a metric worse than the other trials' median after the same epoch.
        prune_after: number of first trials that are never pruned.
        katib: settings for a cluster, see ``Katib``.
    """

    model: str = MODEL
    dataset: str = ""
    task: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, Any] = field(default_factory=dict)
    trials: Positive = 20
    parallel: Annotated[int, Field(ge=0)] = 0
    prune: bool = True
    prune_after: Positive = 4
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] = 12345
    katib: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pipeline(self) -> Pipeline:
        return Pipeline(TRAINING, self.model, self.dataset, self.task)

    @property
    def primary(self) -> Metric:
        return self._task.primary

    @property
    def metric(self) -> Metric:
        """The objective: the metric that judges epochs where validation samples cut groups, which any data may do."""
        return self._task.validation_metric(cuts_groups=True)

    @property
    def _task(self) -> TaskDefinition:
        task = registry.task(self.pipeline.choices["task"])
        return task.at(vars(task.training()) | dict(self.parameters))

    @property
    def metric_name(self) -> str:
        """The name of the objective in the results of an epoch."""
        return f"validation_{self.metric.name}"

    @property
    def dimensions(self) -> dict[str, Dimension]:
        """The search space, by pipeline-wide name."""
        return {name: Dimension(**entry) for name, entry in self.search.items()}

    @property
    def grid(self) -> list[dict[str, Any]]:
        """Every combination of the values, if they are no more than the trials; else empty."""
        known, values = self.searchable(), []
        for name, dimension in self.dimensions.items():
            if not dimension.choices and known[name].value_type is not int:
                return []
            values.append(dimension.choices or range(int(dimension.low or 0), int(dimension.high or 0) + 1))
        if math.prod(map(len, values)) > self.trials:
            return []
        return [dict(zip(self.dimensions, combination, strict=True)) for combination in itertools.product(*values)]

    def searchable(self) -> dict[str, Parameter]:
        """The parameters of the train step, by pipeline-wide name."""
        known = {p.pipeline_name: p for p in step_parameters(STEPS["train"], self.pipeline)}
        del known[HELD_OUT]  # scores on other samples cannot be compared
        return known


def load_plan(path: Path) -> Plan:
    """Reads a sweep from a file.

    Raises:
        KfrecError: the file cannot be read, or a name or value in it is wrong.
    """
    body = read_yaml(path)
    plan = Plan(**typed(f"{path}", body, Plan))
    try:
        known = plan.searchable()
    except KfrecError as error:
        raise KfrecError(f"{path}: {error}") from None
    if not plan.search:
        raise KfrecError(f"{path}: has no search; name at least one parameter and its values")
    search = {}
    for name, entry in plan.search.items():
        source = f"{path}: search: {name}"
        if name in plan.parameters:
            raise KfrecError(f"{source}: is fixed under parameters, too; take it out of one of them")
        if name not in known:
            raise _not_searchable(source, name, plan)
        search[name] = typed(source, entry, Dimension)
        Dimension(**search[name]).check(source, known[name])
    katib = typed(f"{path}: katib", plan.katib, Katib)
    try:
        dimensions = {name: Dimension(**entry) for name, entry in search.items()}
        first = {name: plain(each.choices[0] if each.choices else each.low) for name, each in dimensions.items()}
        checked(dict(plan.parameters) | first, plan.pipeline)
    except KfrecError as error:
        raise KfrecError(f"{path}: {error}") from None
    return dataclasses.replace(plan, search=search, katib=katib)


def _not_searchable(source: str, name: str, plan: Plan) -> KfrecError:
    """Why a parameter cannot be searched."""
    if name in pipeline_parameters(plan.pipeline):
        why = "decides by which samples trials are judged" if name == HELD_OUT else "is not a parameter of the training"
        return KfrecError(f"{source}: {why}; a sweep prepares its data once, so fix it under parameters")
    listed = f"kfrec parameters --model {plan.pipeline.model} lists those of the training"
    return KfrecError(f"{source}: {unknown_parameter(name, list(plan.searchable()), listed)}")
