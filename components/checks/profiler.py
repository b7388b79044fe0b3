"""Profiles a data set while it is read, and judges it before the long work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path

import numpy as np

from components.checks.findings import brief, describe, exceeded, not_compared, remedy
from components.checks.limits import DUPLICATES, MISSING, NEW, PSI, ROWS, TIME, Limits
from components.checks.profile import FAILED, PASSED, WARNED, Finding, Profile, Table
from components.checks.tables import Profiled, TableProfiler, new_values
from components.errors import KfrecError
from components.progress import warn

_DAY = 86_400
# A value that equals its limit but for the rounding of a difference passes: 1 - 70 / 100 is above 0.3 in floats.
_ROUNDING = 1e-9
# The share of a column's values that is unknown in the column that it seems to be.
_SWAPPED = 0.5


class Profiler:
    """Profiles the tables of a data set.

    Args:
        reference: profile to compare with, None compares with nothing.
    """

    def __init__(self, dataset: str, limits: Limits, seed: int, reference: Profile | None) -> None:
        self._dataset, self._limits, self._seed, self._reference = dataset, limits, seed, reference
        self._tables: dict[str, TableProfiler] = {}
        self._alike: set[str] = set()
        self._profile: Profile | None = None

    def table(
        self, name: str, columns: Sequence[Profiled], key: Sequence[str] = (), are_apart: bool = True
    ) -> TableProfiler:
        """The profiler of rows of one kind; see ``TableProfiler``.

        Args:
            are_apart: whether the key tells rows apart, as ids and times do. Else equal rows are no duplicates, and
                only a rise of their share over the reference's is judged.
        """
        if not are_apart:
            self._alike.add(name)
        return self._tables.setdefault(name, TableProfiler(columns, key, self._seed))

    def judge(self) -> None:
        """Checks the profile, and warns about every check above its limit; call it once all rows were read.

        Raises:
            KfrecError: checks that stop the run failed; the message names all of them.
        """
        tables = {name: profiler.profile() for name, profiler in self._tables.items()}
        findings = tuple(finding for name in tables for finding in self._findings(name, tables[name]))
        compared = self._reference is not None
        uncompared = tuple(self._uncompared(tables))
        self._profile = Profile(self._dataset, tables, findings, compared, uncompared)
        if uncompared:
            warn("preprocess", "other columns", f"data check: {not_compared(uncompared)}")
        for name in tables:
            self._warn_of_swapped(name, tables[name])
        for finding in exceeded(findings):
            warn("preprocess", brief(finding), f"data check: {describe(finding)}")
        if failed := [finding for finding in findings if finding.verdict == FAILED]:
            others = f"; so are {', '.join(map(brief, failed[1:]))}" if failed[1:] else ""
            raise KfrecError(f"{describe(failed[0])}{others}; {remedy(failed)}")

    def write(self, folder: Path) -> None:
        """Writes the profile; a data set that profiles nothing has none."""
        if self._profile is not None:
            self._profile.write(folder)

    def _findings(self, name: str, ours: Table) -> Iterator[Finding]:
        theirs = self._reference.tables.get(name) if self._reference else None
        if ours.duplicates is not None and (theirs or name not in self._alike):
            usual = theirs.duplicates or 0.0 if theirs else 0.0
            yield replace(self._finding(DUPLICATES, name, "", ours.duplicates - usual), usual=usual)
        if theirs is None:
            return
        yield self._finding(ROWS, name, "", 1 - ours.rows / max(theirs.rows, 1))
        for column, ref in theirs.columns.items():
            own = ours.columns.get(column)
            if own is None or own.kind != ref.kind:
                continue
            yield self._finding(MISSING, name, column, own.missing - ref.missing)
            shares = self._tables[name].shares(column, ref)
            if shares is not None and len(shares) == len(ref.shares):
                yield self._finding(PSI, name, column, stability_index(shares, ref.shares))
            if own.kind == TIME and own.highest is not None and ref.highest is not None:
                yield self._finding(TIME, name, column, (ref.highest - own.highest) / _DAY)
            if own.values and ref.values:
                if own.values.popularity and len(own.values.popularity) == len(ref.values.popularity):
                    moved = stability_index(own.values.popularity, ref.values.popularity)
                    yield self._finding(PSI, name, f"{column} popularity", moved)
                share = new_values(own.values, ref.values)
                if share is not None:
                    yield self._finding(NEW, name, column, share)

    def _warn_of_swapped(self, name: str, ours: Table) -> None:
        """Warns of a column whose ids are all unknown in it, and known in another one of the reference."""
        theirs = self._reference.tables.get(name) if self._reference else None
        known = {column: own.values for column, own in theirs.columns.items() if own.values} if theirs else {}
        for column, other in permutations(known, 2):
            own = ours.columns[column].values if column in ours.columns else None
            if own is None or new_values(own, known[column]) != 1:
                continue
            new = new_values(own, known[other])
            if new is not None and new < _SWAPPED:
                warn(
                    "preprocess",
                    f"columns of {name}",
                    f"{name}: no value of column {column} is one of it in the reference, and {1 - new:.0%} are of "
                    f"column {other} there; are the columns swapped?",
                )

    def _uncompared(self, tables: Mapping[str, Table]) -> Iterator[str]:
        """Tables, and columns of common tables, that the data and the reference do not have alike."""
        if self._reference is None:
            return
        for name in dict.fromkeys([*self._reference.tables, *tables]):
            theirs, ours = self._reference.tables.get(name), tables.get(name)
            if theirs is None or ours is None:
                yield name
                continue
            for column in dict.fromkeys([*theirs.columns, *ours.columns]):
                known, own = theirs.columns.get(column), ours.columns.get(column)
                if known is None or own is None or known.kind != own.kind:
                    yield f"{name} {column}"

    def _finding(self, check: str, table: str, column: str, value: float) -> Finding:
        limit = self._limits.of(check)
        passed = value <= limit + _ROUNDING
        verdict = PASSED if passed else FAILED if check in self._limits.failing else WARNED
        return Finding(check, table, column, value, limit, verdict)


def format_time(seconds: float | None) -> str:
    """A time as a date and hour in UTC, such as "2014-07-23 00:00"; "–" if there is none."""
    if seconds is None:
        return "–"
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


# Shares below this one count as it: an empty bin would make the index infinite.
LEAST_SHARE = 1e-4


def stability_index(shares: Sequence[float] | np.ndarray, reference: Sequence[float] | np.ndarray) -> float:
    """How far a distribution has moved from another one: the population stability index (PSI).

    PSI = sum over bins of (p - q) ln(p / q), with p and q the shares of a bin; it is symmetric, and 0 for equal shares.
    Below 0.1 is usually read as stable, above 0.25 as a shift that calls for retraining.

    Args:
        shares: shares of the bins, which sum to 1.
    """
    p, q = (np.maximum(np.asarray(each, np.float64), LEAST_SHARE) for each in (shares, reference))
    return float(((p - q) * np.log(p / q)).sum())
