"""The outcomes of data checks in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from components.checks.limits import DUPLICATES, LIMITS, MISSING, NEW, PSI, ROWS, TIME
from components.checks.profile import PASSED, Finding

_DESCRIPTIONS = {
    ROWS: "{value:.1%} fewer rows than in the reference",
    MISSING: "the share of missing values is {value:.1%} above the reference's",
    DUPLICATES: "the share of duplicate rows is {value:.1%}, or that much above the reference's",
    NEW: "{value:.1%} of the values are not in the reference",
    PSI: "its PSI against the reference is {value:.3f}",
    TIME: "the newest time is {value:.1f} days before the reference's",
}


def exceeded(findings: Iterable[Finding]) -> list[Finding]:
    """The findings above their limits, in the order of the data's tables and columns."""
    return [finding for finding in findings if finding.verdict != PASSED]


def brief(finding: Finding) -> str:
    """The check, the table and the column of a finding, such as "psi reviews rating"."""
    return " ".join(filter(None, (finding.check, finding.table, finding.column)))


def describe(finding: Finding) -> str:
    """A finding in words."""
    subject = f"{finding.table}: column {finding.column}" if finding.column else finding.table
    above = "within" if finding.verdict == PASSED else "above"
    description = _DESCRIPTIONS[finding.check].format(value=finding.value)
    return f"{subject}: {description}, {above} {LIMITS[finding.check]}={finding.limit:g}"


def remedy(failed: Sequence[Finding]) -> str:
    """What to do about checks that stop a run."""
    checks = list(dict.fromkeys(finding.check for finding in failed))
    limits = ", ".join(LIMITS[check] for check in checks)
    return f"correct the data, raise {limits}, or take {', '.join(checks)} out of failing_checks"
