"""The models: a package each, with parameters, definition and TensorFlow code; see docs/adding-a-model.md."""

from __future__ import annotations

from components.models.definition import ModelDefinition
from components.models.loss import LossTerm
from components.models.model import Model, Table
from components.models.optimizers import Optimizer, make_optimizer
