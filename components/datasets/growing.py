"""Parameters of the data sets whose vocabulary can grow, see ``components.feature_spec.living``."""

from __future__ import annotations

from dataclasses import dataclass

from components.parameters import REPLAY_SHARE, param


@dataclass(frozen=True)
class Growing:
    """How a vocabulary grows from one night to the next."""

    vocabulary_slack: float = param(
        0.0,
        "Rows for values that become frequent later, as a share of the fitted ones; 0 keeps a vocabulary as it was "
        "fitted",
        at_least=0,
        at_most=100,
    )
    evict_after: int = param(
        30, "A value that was not seen for longer loses its row of a vocabulary that grows", unit="days", at_least=1
    )
    evict_share: float = param(
        0.1, "Largest share of a table's rows that values lose in a night", at_least=0, at_most=1
    )
    replay_share: float = REPLAY_SHARE
