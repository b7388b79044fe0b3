"""The definition of a model, the interface of a model package; see docs/adding-a-model.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from components.feature_spec import FeatureSpec, ListLength
from components.models.model import Model

if TYPE_CHECKING:
    import numpy as np

    from components.models.optimizers.groups import OptimizerGroup
    from components.report import Section


@dataclass(frozen=True)
class Explained:
    """Samples of the test split, and the explanation of the model's outputs for them.

    Attributes:
        samples: the features of the records by name, ``[n]`` or ``[n, length]``, in the ids of the data.
        chosen: bool ``[n]``, whether the user chose the target.
        values: what ``components.models.model.Explaining.explain`` returned, ``[n, ...]`` each.
    """

    spec: FeatureSpec
    samples: Mapping[str, np.ndarray]
    chosen: np.ndarray
    values: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class ModelDefinition:
    """A model, registered under the entry points ``kfrec.models``.

    Attributes:
        name: value of ``model_type`` and ``kfrec run --model``.
        title: display name, such as "DIN".
        parameters: frozen dataclass of its own parameters, declared with ``components.parameters.param``.
        build: takes those, the features of the records, the seed of the weights and whether to compute in float16, and
            returns the model with fresh weights. Imports TensorFlow inside.
        optimizers: takes the parameters, the model and the steps per epoch, and returns the optimizer groups, which
            cover every trainable variable.
        needs: channels of lists without which it cannot train; a data set has those of its ``lengths``.
        check: takes the train step's parameters and the list length of each channel, and raises KfrecError if they are
            incompatible; called before the first step of a run starts.
        serving: returns the context in which the exported signature is traced, such as one that trims histories.
        explanation: takes what the model explained, and returns sections of the report; for a model that is
            ``components.models.model.Explaining``.
        inherited: names of the parameters, such as sizes, that must be those of the model whose weights it starts from;
            none if it never follows another training.
        fresh: prefixes of the names of weights that need no counterpart in a model to start from (``warm_start_path``),
            such as the head of a fine-tuning.
        defaults: defaults of the steps' parameters, by pipeline name, that override those of the data set, the task and
            the steps, such as the published epochs and batch size, or registered_model.
        local_defaults: the same for ``kfrec run``, on any data, by pipeline parameter.
        dataset_defaults: data set to the defaults of the pipelines on it, by pipeline parameter, wherever they run.
        retrieves: whether it finds the candidates of a ranking model, by vectors of users and items or by scores of all
            items; see ``--after``.
        is_baseline: whether it is a baseline itself, which the gate asks to be above guessing, not above the task's
            baseline.
    """

    name: str
    title: str
    summary: str
    parameters: type
    build: Callable[[Any, FeatureSpec, int, bool], Model]
    optimizers: Callable[[Any, Model, int], Sequence[OptimizerGroup]]
    dataset: str
    task: str
    needs: tuple[str, ...] = ()
    check: Callable[[Any, Mapping[str, ListLength]], None] = lambda parameters, lengths: None
    serving: Callable[[], AbstractContextManager[None]] = nullcontext
    explanation: Callable[[Explained], Sequence[Section]] = lambda explained: ()
    inherited: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    local_defaults: Mapping[str, Any] = field(default_factory=dict)
    dataset_defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    retrieves: bool = False
    is_baseline: bool = False
