"""Raw rows at serving time: the columns that a data set reads, and how it encodes them; see docs/predict.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

# Kinds of columns: text, a list of texts, or whatever a table holds (text, numbers, lists).
TEXT, TEXTS, VALUE = "text", "texts", "value"
# Column roles, used to recommend items to a user.
USER, HISTORY, CANDIDATE = "user", "history", "candidate"
# Roles of columns that tell more: lists beside the history, and values of the event to score, such as its device.
BESIDE, CONTEXT = "beside", "context"
# Separates the texts of a list in a plain-text file.
SEPARATOR = "|"
# The text of a list of none.
NOTHING = "[]"


@dataclass(frozen=True)
class RawColumn:
    """A column of raw rows.

    Attributes:
        kind: one of TEXT, TEXTS and VALUE.
        role: one of USER, HISTORY, CANDIDATE, BESIDE and CONTEXT, or empty.
    """

    name: str
    kind: str
    help: str
    role: str = ""


@dataclass(frozen=True)
class Encoded:
    """Encoded rows.

    Attributes:
        features: name to ids or numbers, ``[n]`` or ``[n, length]``, the model's inputs.
        unknown: column to its number of out-of-vocabulary ids per row, ``[n]``; only columns with a vocabulary.
    """

    features: Mapping[str, np.ndarray]
    unknown: Mapping[str, np.ndarray]


class RawRows(Protocol):
    """Encodes raw rows for one model, with only the vocabulary and statistics stored beside it."""

    columns: tuple[RawColumn, ...]

    def encode(self, rows: Mapping[str, pa.Array]) -> Encoded:
        """Encodes rows.

        Args:
            rows: column to values. A one-row column is broadcast.

        Raises:
            KfrecError: a column has the wrong type, or a value is invalid; the message names the column, not the file.
        """

    def example(self) -> dict[str, list[Any]]:
        """Two rows of known values, by column."""


@runtime_checkable
class Answering(Protocol):
    """Raw rows that a model's outputs answer: one row may be several samples, whose outputs become one answer.

    ``RawRows.encode`` then returns the samples of all rows, one row after the other.

    Attributes:
        answers: columns of an answer, in place of the model's outputs, to NumPy's name of their type, such as "str".
    """

    answers: Mapping[str, str]

    def answer(
        self,
        rows: Mapping[str, pa.Array],
        encoded: Encoded,
        outputs: Mapping[str, np.ndarray],
        parameters: Mapping[str, Any],
    ) -> Mapping[str, np.ndarray]:
        """Answers the rows.

        Args:
            rows: as given to ``RawRows.encode``.
            encoded: what it returned; it may hold what is needed to get from samples back to rows.
            outputs: of the model, by name, ``[samples, ...]`` each.
            parameters: of the model's training, such as those of its task.

        Returns:
            The columns, ``[rows, ...]`` each.
        """


def listed(value: Any) -> list[str | None]:
    """A history as a list: of a list itself, of text its parts, of None nothing."""
    if isinstance(value, str):
        return [part for part in value.split(SEPARATOR) if part and value != NOTHING]
    return [] if value is None else list(value)


@runtime_checkable
class SpelledIds(Protocol):
    """Raw rows of a data set that gives an id one text, whatever its type and spelling in a file: 3.0 is 3."""

    def spelled(self, ids: pa.Array) -> pa.Array:
        """Ids as the vocabulary spells them.

        Args:
            ids: values of a column of users or items, ``[n]``.

        Returns:
            Text, ``[n]``; null for a missing one.
        """


@runtime_checkable
class Categorized(Protocol):
    """Raw rows of a data set whose candidates have a category each."""

    def categories(self, candidates: pa.Array) -> np.ndarray | None:
        """The category of each candidate.

        Args:
            candidates: values of the column of the role CANDIDATE, ``[n]``.

        Returns:
            Ids, int64 ``[n]``; candidates of unknown category share one. None if none is known.
        """


@runtime_checkable
class NamedCategories(Protocol):
    """Raw rows of a data set whose models may read the category of a candidate as its second feature."""

    def category_ids(self, categories: pa.Array) -> np.ndarray:
        """The ids of categories, for a model that reads them.

        Args:
            categories: names, string ``[n]``; null is none.

        Returns:
            Values of the feature, ``[n]``, -1 for a category that the vocabulary lacks.
        """


@runtime_checkable
class SampledNegatives(Protocol):
    """Raw rows of a data set whose negative samples are drawn from a distribution q over the candidates.

    A model that tells chosen items from drawn ones learns the log-odds ``ln p(i | user) - ln q(i)``: how much likelier
    the user chooses an item than a draw does. What is likely itself needs q; see ``components.scoring.catalogue``.
    """

    def sampling_counts(self, candidates: pa.Array) -> np.ndarray | None:
        """How often each candidate occurs in the distribution, at the end of the training data.

        Args:
            candidates: values of the column of the role CANDIDATE, ``[n]``.

        Returns:
            float64 ``[n]``, 0 for one that never trained or is unknown; None if the model was written without counts.

        Raises:
            KfrecError: the counts are damaged.
        """
