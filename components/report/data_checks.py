"""The report's section about the raw data: its size, and its comparison with the reference."""

from __future__ import annotations

from collections.abc import Sequence

from components.checks.findings import describe, exceeded, not_compared
from components.checks.profile import PASSED, TIME, Finding, Profile, Table
from components.checks.profiler import format_time
from components.report.charts import table
from components.report.elements import Figure, Section

_SHOWN = 12


def data_checks(profile: Profile) -> Section:
    """The size of the data, and the findings closest to or above their limits."""
    above = exceeded(profile.findings)
    if profile.compared:
        summary = f"{len(profile.findings)} checks against the reference, {len(above)} above their limits."
        if profile.uncompared:
            left_out = not_compared(profile.uncompared)
            summary += f" {left_out[0].upper()}{left_out[1:]}."
    else:
        summary = "There was no reference (parameter reference_profile), so nothing could be compared."
    return Section(
        "Data checks",
        f"The raw data, before preprocessing. {summary}",
        [*_above(above), _read(profile), *_compared(profile)],
    )


def _above(findings: Sequence[Finding]) -> list[Figure]:
    rows = [(describe(finding),) for finding in findings]
    note = "Data that differ from those of the reference: a model that was trained on them may be worse on either."
    return [Figure("Above their limits", table(("data check",), rows), note)] if rows else []


def _read(profile: Profile) -> Figure:
    rows = [
        (name, f"{each.rows:,}", f"{each.malformed_share:.2%}", _share(each.duplicates), *_period(each))
        for name, each in profile.tables.items()
    ]
    chart = table(("table", "rows", "malformed", "duplicates", "from", "to"), rows)
    return Figure("What was read", chart, "Times are UTC. Shares of duplicates come from a sample of the rows' keys.")


def _compared(profile: Profile) -> list[Figure]:
    order = sorted(profile.findings, key=lambda finding: (finding.verdict == PASSED, -_nearness(finding)))
    rows = [
        (" ".join(filter(None, (each.table, each.column))), each.check, f"{each.value:.3f}", f"{each.limit:g}",
         "" if each.verdict == PASSED else each.verdict)
        for each in order[: max(_SHOWN, len(exceeded(profile.findings)))]
    ]  # fmt: skip
    chart = table(("what", "check", "found", "limit", ""), rows)
    note = (
        "Those above or nearest to their limits; profile.json has all. psi is the population stability index: below "
        "0.1 is stable, above 0.25 a shift. new is the share of values that the reference lacks."
    )
    return [Figure("Against the reference", chart, note)] if rows else []


def _nearness(finding: Finding) -> float:
    return finding.value / finding.limit if finding.limit else finding.value


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.2%}"


def _period(table: Table) -> tuple[str, str]:
    times = [column for column in table.columns.values() if column.kind == TIME]
    return (format_time(times[0].lowest), format_time(times[0].highest)) if times else ("–", "–")
