"""The models: a package each, with parameters, definition and TensorFlow code; see docs/adding-a-model.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.models.definition import ModelDefinition
from components.models.loss import LossTerm
from components.models.model import Model, Table, require_interface
from components.models.optimizers import Optimizer, make_optimizer

if TYPE_CHECKING:
    from components.feature_spec import FeatureSpec
    from components.steps.catalog import TrainParameters

__all__ = ["LossTerm", "Model", "ModelDefinition", "Optimizer", "Table", "build_model", "make_optimizer"]


def build_model(parameters: TrainParameters, spec: FeatureSpec, *, seed: int | None = None) -> Model:
    """Builds ``parameters.model_type`` with fresh weights, which depend on the seed alone.

    Args:
        parameters: of the loop, and of the model.
        spec: the features and channels of the records.
        seed: of the weights; None takes ``parameters.seed``.

    Raises:
        KfrecError: there is no such model, the channels of ``spec`` do not fit it, or it lacks what a model has.
    """
    from components import registry

    definition = registry.model(parameters.model_type)
    model = definition.build(parameters, spec, parameters.seed if seed is None else seed, parameters.amp)
    require_interface(f"model {definition.name}", model, spec)
    return model
