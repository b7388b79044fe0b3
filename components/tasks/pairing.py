"""Parameters of the register step that make two stages, a retrieval and a ranking model, one registered model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.errors import KfrecError
from components.parameters import param

# Candidates that a first stage retrieves for a user, unless another number is given.
RETRIEVED = 100


@dataclass(frozen=True)
class PairDecision:
    """The pair, and how pairs are compared: by NDCG@10 of the items that test users chose."""

    pair_with: str = param(
        "",
        "Registered model of the other stage, such as kfrec-retrieval for a ranking model; the champions of both are "
        "then registered as one model, too; empty registers none",
    )
    registered_pair: str = param("kfrec-recommender", "Name of the pair in the model registry")
    pair_retrieve: int = param(RETRIEVED, "Candidates that the pair's first stage retrieves", unit="items", at_least=10)
    pair_users: int = param(
        2000,
        "Largest number of test users by whose choices pairs are compared, and of validation users by whose the two "
        "stages are weighed; fewer where they have more than 5,000 choices",
        unit="users",
        at_least=1,
    )
    pair_may_be_level: bool = param(
        False,
        "Whether a pair may become the champion whose order is not shown to be better than that of its first stage "
        "alone; a worse one may not",
    )


def require_names(values: Mapping[str, Any]) -> None:
    """Checks the names of a pair and of its stages, before any work.

    Args:
        values: parameters of the register step by name; those that are missing are not checked.

    Raises:
        KfrecError: MLflow refuses a name, or two of them are the same.
    """
    if not values.get("pair_with"):
        return
    seen: dict[str, str] = {}
    for name in ("registered_model", "pair_with", "registered_pair"):
        value = values.get(name)
        if value is None:
            continue
        if not value or "/" in value or ":" in value:
            raise KfrecError(
                f"parameter {name}={value!r}: give the name of a registered model; MLflow's names have no / and no :"
            )
        if value in seen:
            raise KfrecError(f"parameter {name}={value!r} is {seen[value]}, too; give each its own name")
        seen[value] = name
