"""The profile of data: counts and histograms, as stored in profile.json, without any row of the data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from components.artifacts.folder import require_listed
from components.artifacts.remote import local_copy
from components.checks import PROFILE
from components.errors import KfrecError

Kind = Literal["category", "number", "time"]
Verdict = Literal["passed", "warned", "failed"]
CATEGORY: Kind = "category"
NUMBER: Kind = "number"
TIME: Kind = "time"
PASSED: Verdict = "passed"
WARNED: Verdict = "warned"
FAILED: Verdict = "failed"


@dataclass(frozen=True)
class Values:
    """The distinct values of a column, such as users.

    Attributes:
        level: ``hashes`` sample a share of 2 ** -level.
        hashes: value hashes, 16 hexadecimal digits each, ascending.
        popularity: share of the values by frequency relative to the mean; see ``tables.POPULARITY``.
    """

    distinct: int
    level: int
    hashes: tuple[str, ...]
    popularity: tuple[float, ...]


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        missing: share of rows without a value.
        shares: shares of the values: per bin of ``edges``, or per category, with all others last.
        categories: the most frequent ones, as text, or as hashes where ``values`` were counted.
        lowest: number, or seconds since 1970.
        values: distinct values, if counted.
    """

    kind: Kind
    missing: float
    shares: tuple[float, ...] = ()
    edges: tuple[float, ...] = ()
    categories: tuple[str, ...] = ()
    lowest: float | None = None
    highest: float | None = None
    values: Values | None = None


@dataclass(frozen=True)
class Table:
    """Raw files of one kind.

    Attributes:
        duplicates: share of rows that repeat an earlier one, None without a key.
    """

    rows: int
    malformed: int
    duplicates: float | None
    columns: Mapping[str, Column]

    @property
    def malformed_share(self) -> float:
        """Share of malformed rows among all."""
        return self.malformed / max(self.rows + self.malformed, 1)


@dataclass(frozen=True)
class Finding:
    """The outcome of a check.

    Attributes:
        column: checked column, or an aspect of it; empty is the whole table.
        limit: largest passing value.
        usual: share of duplicates in the reference, above which ``value`` is; 0 for other checks.
    """

    check: str
    table: str
    column: str
    value: float
    limit: float
    verdict: Verdict
    usual: float = 0.0


@dataclass(frozen=True)
class Profile:
    """The profile of a data set.

    Attributes:
        uncompared: what it and the data do not have in common, such as "reviews rating".
    """

    dataset: str
    tables: Mapping[str, Table]
    findings: tuple[Finding, ...] = ()
    compared: bool = False
    uncompared: tuple[str, ...] = ()
    format: Literal[1] = 1

    def write(self, folder: Path) -> None:
        (folder / PROFILE).write_text(json.dumps(asdict(self), indent=1, allow_nan=False) + "\n")


def read_profile(path: Path) -> Profile | None:
    """The profile in a file; None if it does not exist.

    Raises:
        KfrecError: it holds something else.
    """
    try:
        return TypeAdapter(Profile).validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "its text"
        raise KfrecError(f"{path}: not a profile ({field}: {first['msg']}); run the preprocess step again") from None


def reference_profile(location: str, dataset: str, scratch: Path) -> Profile:
    """The profile to compare with.

    Args:
        location: folder or URI of the preprocess step's output, or of records or a model with its profile.

    Raises:
        KfrecError: there is none, or it is of another data set.
    """
    folder = local_copy(location, scratch, PROFILE)
    profile = read_profile(folder / PROFILE)
    if profile is None:
        raise KfrecError(
            f"{location}: no {PROFILE} here; reference_profile must name an earlier output of this step, or records or "
            "a model that carry its profile"
        )
    require_listed(folder, [PROFILE])
    if profile.dataset != dataset:
        raise KfrecError(
            f"{location}: profile of the data set {profile.dataset}, and this is {dataset}; give reference_profile of "
            "the same data set"
        )
    return profile
