from __future__ import annotations

from typing import Any

from components import registry
from components.feature_spec import FeatureSpec
from components.models import Model
from components.train.loop import tables


def build_model(parameters: Any, spec: FeatureSpec, *, seed: int | None = None) -> Model:
    """The model that the parameters name, with fresh weights; without a seed, those of their own."""
    definition = registry.model(parameters.model_type)
    return tables.build_model(definition, parameters, spec, parameters.seed if seed is None else seed)
