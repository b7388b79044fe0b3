"""Builds the model of a training."""

from __future__ import annotations

from typing import Any

from components import registry
from components.feature_spec import FeatureSpec
from components.models import Model
from components.models.model import require_interface


def build_model(parameters: Any, spec: FeatureSpec, *, seed: int | None = None) -> Model:
    """Builds ``parameters.model_type`` with fresh weights, which depend on the seed alone.

    Args:
        parameters: of the loop, and of the model.
        spec: the features and channels of the records.
        seed: of the weights; None takes ``parameters.seed``.

    Raises:
        KfrecError: there is no such model, the channels of ``spec`` do not fit it, or it lacks what a model has.
    """
    definition = registry.model(parameters.model_type)
    built = definition.build(parameters, spec, parameters.seed if seed is None else seed, parameters.amp)
    require_interface(f"model {definition.name}", built, spec)
    return built
