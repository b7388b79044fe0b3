"""Parameters of DIEN."""

from __future__ import annotations

from dataclasses import dataclass

from components.models.parameters import MLP_DIMS, EvolutionParameters
from components.parameters import Ints


@dataclass(frozen=True)
class DienParameters(EvolutionParameters):
    """Sizes of DIEN."""

    mlp_dims: Ints = MLP_DIMS
