"""The parameters of a chain of trainings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.parameters import Parameter
from pipelines.chain import FIRST, Chain
from pipelines.parameters import pipeline_parameters


def chain_parameters(
    chain: Chain, first: Mapping[str, Any] | None = None, second: Mapping[str, Any] | None = None
) -> dict[str, Parameter]:
    """Parameters by name: those of the second training, and those of the first with FIRST before their names.

    Args:
        first: local or cluster defaults of the first training.
    """
    begins, ends = pipeline_parameters(chain.first, first), pipeline_parameters(chain.second, second)
    return {
        **{f"{FIRST}{name}": parameter for name, parameter in begins.items() if name not in chain.shared},
        **{name: parameter for name, parameter in ends.items() if name not in chain.linked},
    }
