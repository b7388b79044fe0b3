"""Kinds of events, such as view and purchase: which of them are targets, and which are in histories."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Code of an event without a kind; those of kinds follow.
NO_KIND = 0
MOST_KINDS = 127


@dataclass(frozen=True)
class Kinds:
    """Which kinds of events are used, by their codes; None is all, those without a kind among them."""

    targets: frozenset[int] | None = None
    context: frozenset[int] | None = None

    def are_targets(self, codes: np.ndarray) -> np.ndarray:
        """Whether events are targets, bool ``[n]``."""
        return _among(codes, self.targets)

    def are_context(self, codes: np.ndarray) -> np.ndarray:
        """Whether events are in the histories of later targets, bool ``[n]``."""
        return _among(codes, self.context)


EVERY_KIND = Kinds()


def _among(codes: np.ndarray, chosen: frozenset[int] | None) -> np.ndarray:
    return np.ones(len(codes), bool) if chosen is None else np.isin(codes, list(chosen))


def listed_kinds(text: str) -> tuple[str, ...]:
    """The kinds in a parameter, which commas separate."""
    return tuple(filter(None, (name.strip() for name in text.split(","))))
