"""Raw rows at serving time: the columns that a data set reads, and how it encodes them; see docs/predict.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

# Kinds of columns: text, a list of texts, or whatever a table holds (text, numbers, lists).
TEXT, TEXTS, VALUE = "text", "texts", "value"
# Roles of columns, by which items can be recommended to a user.
USER, HISTORY, CANDIDATE = "user", "history", "candidate"
# Between the texts of a list where a file holds plain text.
SEPARATOR = "|"


@dataclass(frozen=True)
class RawColumn:
    """A column of raw rows.

    Attributes:
        name: of the column.
        kind: one of TEXT, TEXTS and VALUE.
        help: one sentence.
        role: one of USER, HISTORY and CANDIDATE, or empty.
    """

    name: str
    kind: str
    help: str
    role: str = ""


@dataclass(frozen=True)
class Encoded:
    """Encoded rows.

    Attributes:
        features: name to ids or numbers, ``[n]`` or ``[n, length]``, as the model reads them.
        unknown: column to the number of its ids in each row that the vocabulary lacks, ``[n]``; columns without a
            vocabulary are left out.
    """

    features: Mapping[str, np.ndarray]
    unknown: Mapping[str, np.ndarray]


class RawRows(Protocol):
    """Encodes raw rows for one model, with the vocabulary and the statistics beside it alone.

    Attributes:
        columns: that it reads.
    """

    columns: tuple[RawColumn, ...]

    def encode(self, rows: Mapping[str, pa.Array]) -> Encoded:
        """Encodes rows.

        Args:
            rows: column to values. A column of one row holds for every row.

        Raises:
            KfrecError: a column is of a type that cannot hold its values, or a value is invalid; the message names the
                column, not the file.
        """

    def example(self) -> dict[str, list[Any]]:
        """Two rows of values that the vocabulary has, by column."""
