"""Findings, and the interface of checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

OK, MISSING, NOTE = "ok", "missing", "note"

P = TypeVar("P")


@dataclass(frozen=True)
class Finding:
    """One line.

    Attributes:
        state: OK; MISSING if kfrec cannot work; NOTE if it can, with a remark.
        found: description.
        remedy: may be empty.
    """

    state: str
    found: str
    remedy: str = ""


@dataclass(frozen=True)
class Check(Generic[P]):
    """One subject.

    Attributes:
        subject: a word or two at the beginning of the line.
        run: maps the input to findings; a KfrecError counts as MISSING.
    """

    subject: str
    run: Callable[[P], Iterable[Finding]]


def ok(found: str) -> Finding:
    return Finding(OK, found)


def missing(found: str, remedy: str) -> Finding:
    return Finding(MISSING, found, remedy)


def note(found: str, remedy: str = "") -> Finding:
    return Finding(NOTE, found, remedy)
