"""Kinds of events, such as view and purchase: which of them are targets, and which are in histories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.feature_spec.vocabulary import vocabulary_file

# Code of an event without a kind; those of kinds follow.
NO_KIND = 0
MOST_KINDS = 127
# The samples' column of the code of the target's kind, and its vocabulary.
KIND = "kind"


@dataclass(frozen=True)
class Kinds:
    """Which kinds of events are used, by their codes; None is all, those without a kind among them.

    Attributes:
        names: of all kinds, in the order of their codes, which begin after NO_KIND.
    """

    targets: frozenset[int] | None = None
    context: frozenset[int] | None = None
    names: Sequence[str] = ()

    @property
    def divide_targets(self) -> bool:
        """Whether targets are of several kinds, so that samples tell which."""
        return len(self.names if self.targets is None else self.targets) > 1

    def are_targets(self, codes: np.ndarray) -> np.ndarray:
        """Whether events are targets, bool ``[n]``."""
        return _among(codes, self.targets)

    def are_context(self, codes: np.ndarray) -> np.ndarray:
        """Whether events are in the histories of later targets, bool ``[n]``."""
        return _among(codes, self.context)

    def write(self, folder: Path) -> None:
        """Writes the vocabulary of KIND, columns id (int32) and value (string), below an artifact's folder."""
        codes = pa.array(range(NO_KIND + 1, NO_KIND + 1 + len(self.names)), pa.int32())
        pq.write_table(pa.table({"id": codes, "value": pa.array(self.names)}), folder / vocabulary_file(KIND))


EVERY_KIND = Kinds()


def _among(codes: np.ndarray, chosen: frozenset[int] | None) -> np.ndarray:
    return np.ones(len(codes), bool) if chosen is None else np.isin(codes, list(chosen))


def listed_kinds(text: str) -> tuple[str, ...]:
    """The kinds in a parameter, which commas separate."""
    return tuple(filter(None, (name.strip() for name in text.split(","))))
