"""The data checks by name, and which of them stop a run."""

from __future__ import annotations

from components.errors import KfrecError

ROWS, MISSING, DUPLICATES, NEW, PSI, TIME = "rows", "missing", "duplicates", "new", "psi", "time"
# Each with the parameter that is its threshold.
LIMITS = {
    ROWS: "fewer_rows_limit",
    MISSING: "missing_limit",
    DUPLICATES: "duplicate_limit",
    NEW: "new_values_limit",
    PSI: "psi_limit",
    TIME: "older_limit",
}
EVERY = "all"


def failing(text: str) -> frozenset[str]:
    """The checks that stop a run, from names separated by commas; ``all`` is every one.

    Raises:
        KfrecError: there is no such check.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in (*LIMITS, EVERY):
            raise KfrecError(
                f"parameter failing_checks={text!r}: no check is called {name!r}; choose from "
                f"{', '.join((*LIMITS, EVERY))}"
            )
    return frozenset(LIMITS if EVERY in names else names)
