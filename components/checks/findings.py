"""The outcomes of data checks in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from components.checks.limits import DUPLICATES, LIMITS, MISSING, NEW, PSI, ROWS, TIME
from components.checks.profile import PASSED, Finding

# The sentence of each check, and its value's format: decimals and suffix.
_DESCRIPTIONS = {
    ROWS: ("{} fewer rows than in the reference", 1, "%"),
    MISSING: ("the share of missing values is {} above the reference's", 1, "%"),
    DUPLICATES: ("the share of duplicate rows is {}", 1, "%"),
    NEW: ("{} of the values are not in the reference", 1, "%"),
    PSI: ("its PSI against the reference is {}", 3, "f"),
    TIME: ("the newest time is {} days before the reference's", 1, "f"),
}
_MOST_DECIMALS = 9


def exceeded(findings: Iterable[Finding]) -> list[Finding]:
    """The findings above their limits, in the order of the data's tables and columns."""
    return [finding for finding in findings if finding.verdict != PASSED]


def brief(finding: Finding) -> str:
    """The check, the table and the column of a finding, such as "psi reviews rating"."""
    return " ".join(filter(None, (finding.check, finding.table, finding.column)))


def describe(finding: Finding) -> str:
    subject = f"{finding.table}: column {finding.column}" if finding.column else finding.table
    above = "within" if finding.verdict == PASSED else "above"
    description = _measured(finding)
    return f"{subject}: {description}, {above} {LIMITS[finding.check]}={finding.limit:g}"


def _measured(finding: Finding) -> str:
    """The value in words, with as many decimals as tell a value above its limit from the limit."""
    sentence, decimals, kind = _DESCRIPTIONS[finding.check]
    while finding.verdict != PASSED and decimals < _MOST_DECIMALS:
        if f"{finding.value:.{decimals}{kind}}" != f"{finding.limit:.{decimals}{kind}}":
            break
        decimals += 1
    value = f"{finding.value:.{decimals}{kind}}"
    if finding.usual:
        value = f"{finding.usual + finding.value:.{decimals}{kind}}, {value} above the reference's"
    return sentence.format(value)


def not_compared(names: Sequence[str]) -> str:
    """What was left out of the comparison, in words."""
    return f"not compared, being in only one of the data and the reference or of another type there: {', '.join(names)}"


def remedy(failed: Sequence[Finding]) -> str:
    """What to do about checks that stop a run."""
    checks = list(dict.fromkeys(finding.check for finding in failed))
    limits = ", ".join(LIMITS[check] for check in checks)
    return f"correct the data, raise {limits}, or take {', '.join(checks)} out of failing_checks"
