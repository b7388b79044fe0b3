"""The click-through-rate models: one module a model, behind :func:`build_model`.

Adding a model means adding a module ``components/models/<model_type>.py`` with a function
``build(parameters, spec, seed)`` that returns a :class:`Model`, and its name to the choices of ``model_type``.
"""

from components.models.loss import LossTerm
from components.models.optimizers import Optimizer, make_optimizer
from components.models.registry import Model, build_model

__all__ = ["LossTerm", "Model", "Optimizer", "build_model", "make_optimizer"]
