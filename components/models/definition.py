"""What a package brings that brings a model; see docs/adding-a-model.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from components.feature_spec import FeatureSpec, ListLength
from components.models.model import Model

if TYPE_CHECKING:
    from components.models.optimizers.groups import OptimizerGroup


@dataclass(frozen=True)
class ModelDefinition:
    """A model by name, registered under the entry points ``kfrec.models``.

    Attributes:
        name: what ``model_type`` and ``kfrec run --model`` call it.
        title: what people call it, such as "DIN".
        summary: one sentence.
        parameters: frozen dataclass of its own parameters, declared with :func:`components.steps.parameter.param`.
        build: takes those, the features of the records, the seed of the weights and whether to compute in float16, and
            returns the model with fresh weights. TensorFlow is imported within.
        optimizers: takes the parameters, the model and the steps of an epoch, and returns the optimizer groups, which
            together have every trainable variable.
        dataset: name of the data set that it trains on by default.
        task: name of the task that judges it.
        check: takes the train step's parameters and how long the lists of each channel will be, and raises KfrecError
            if they do not fit together; asked before the first step of a run starts.
        serving: makes the context within which the exported signature is traced, such as one in which histories are
            trimmed.
        defaults: other defaults of the train step's parameters, such as the published epochs and batch size.
        local_defaults: the same where ``kfrec run`` trains on the built-in data, by pipeline parameter.
    """

    name: str
    title: str
    summary: str
    parameters: type
    build: Callable[[Any, FeatureSpec, int, bool], Model]
    optimizers: Callable[[Any, Model, int], Sequence[OptimizerGroup]]
    dataset: str
    task: str
    check: Callable[[Any, Mapping[str, ListLength]], None] = lambda parameters, lengths: None
    serving: Callable[[], AbstractContextManager[None]] = nullcontext
    defaults: Mapping[str, Any] = field(default_factory=dict)
    local_defaults: Mapping[str, Any] = field(default_factory=dict)
