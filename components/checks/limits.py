"""The data checks by name, their limits, and which of them stop a run."""

from __future__ import annotations

from dataclasses import dataclass

from components.errors import KfrecError
from components.parameters import param

ROWS, MISSING, DUPLICATES, NEW, PSI, TIME = "rows", "missing", "duplicates", "new", "psi", "time"
# Each with the parameter that is its limit.
LIMITS = {
    ROWS: "fewer_rows_limit",
    MISSING: "missing_limit",
    DUPLICATES: "duplicate_limit",
    NEW: "new_values_limit",
    PSI: "psi_limit",
    TIME: "older_limit",
}
EVERY = "all"


@dataclass(frozen=True)
class Limits:
    """How much data may differ from the reference, and which differences stop a run."""

    fewer_rows_limit: float = param(
        0.5, "Data check rows: share of the reference's rows that may be lacking", at_least=0, at_most=1
    )
    missing_limit: float = param(
        0.05, "Data check missing: rise of a column's share of missing values over the reference's", at_least=0,
        at_most=1,
    )  # fmt: skip
    duplicate_limit: float = param(
        0.1, "Data check duplicates: share of duplicate rows, or its rise over the reference's", at_least=0, at_most=1
    )
    new_values_limit: float = param(
        0.5, "Data check new: share of users, items and the like that the reference lacks", at_least=0, at_most=1
    )
    psi_limit: float = param(
        0.25, "Data check psi: population stability index of a column against the reference", at_least=0, at_most=100
    )
    older_limit: float = param(
        1.0, "Data check time: how much older than the reference's the newest row may be", unit="days", at_least=0
    )
    failing_checks: str = param(
        "",
        "Data checks that stop the run rather than warn, separated by commas: rows, missing, duplicates, new, psi, "
        "time; all is every one",
    )

    def check(self) -> None:
        """Allows known checks only."""
        _ = self.failing

    def of(self, check: str) -> float:
        return float(getattr(self, LIMITS[check]))

    @property
    def failing(self) -> frozenset[str]:
        """The checks that stop a run; ``all`` is every one.

        Raises:
            KfrecError: there is no such check.
        """
        names = [name.strip() for name in self.failing_checks.split(",") if name.strip()]
        for name in names:
            if name not in (*LIMITS, EVERY):
                raise KfrecError(
                    f"parameter failing_checks={self.failing_checks!r}: no check is called {name!r}; choose from "
                    f"{', '.join((*LIMITS, EVERY))}"
                )
        return frozenset(LIMITS if EVERY in names else names)
