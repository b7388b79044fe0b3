"""Parameters of SIM."""

from __future__ import annotations

from dataclasses import dataclass

from components.models.parameters import EvolutionParameters
from components.parameters import Ints, param


@dataclass(frozen=True)
class SimParameters(EvolutionParameters):
    """The public SIM documentation's, with its defaults."""

    stage_one_mlp_dims: Ints = param(
        (200,), "Hidden layers of the general search's classifier", at_least=1, at_most=65_536
    )
    stage_two_mlp_dims: Ints = param((200, 80), "Hidden layers of the classifier", at_least=1, at_most=65_536)
