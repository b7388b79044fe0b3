"""Parameters of the register step that make two stages, a retrieval and a ranking model, one registered model."""

from __future__ import annotations

from dataclasses import dataclass

from components.parameters import param


@dataclass(frozen=True)
class PairDecision:
    """The pair, and how pairs are compared: by HR@10 of the items that test users chose last."""

    pair_with: str = param(
        "",
        "Registered model of the other stage, such as kfrec-retrieval for a ranking model; the champions of both are "
        "then registered as one model, too; empty registers none",
    )
    registered_pair: str = param("kfrec-recommender", "Name of the pair in the model registry")
    pair_retrieve: int = param(200, "Candidates that the pair's first stage retrieves", unit="items", at_least=10)
    pair_users: int = param(2000, "Largest number of test users by whom pairs are compared", unit="users", at_least=1)
