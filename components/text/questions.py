"""The side tables of questions: texts, and where their tokens are, so that answers are read from the original."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from components.feature_spec.side_tables import read_side_table

# Rows are numbered from 0, in the order of the table; samples name questions by these numbers.
QUESTIONS, CONTEXTS = "questions", "contexts"
# The channel of the columns that tell where a sample comes from, ``Channel.GROUP``, in this order: number of the
# question, index of the window's first token in the context, number of its tokens, position of the first in the sample.
QUESTION, FIRST_TOKEN, CONTEXT_TOKENS, CONTEXT_BEGIN = "question", "first_token", "context_tokens", "context_begin"
# The targets: first and last position of the answer in the sample, 0 without one, and whether there is none.
START, END, IS_IMPOSSIBLE = "start_position", "end_position", "is_impossible"
WINDOW = (QUESTION, FIRST_TOKEN, CONTEXT_TOKENS, CONTEXT_BEGIN)
_POSITIONS = pa.list_(pa.field("element", pa.int32(), nullable=False))
QUESTIONS_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("question", pa.large_string()),
        pa.field("context", pa.int32()),
        # Of a question without an answer, none.
        pa.field("answers", pa.list_(pa.string())),
    ]
)
CONTEXTS_SCHEMA = pa.schema(
    [
        pa.field("context", pa.large_string()),
        # Of each token, the character where it begins, and the one behind it.
        pa.field("token_begins", _POSITIONS),
        pa.field("token_ends", _POSITIONS),
    ]
)


class QuestionTables:
    """The side tables.

    Attributes:
        answers: of each question the accepted texts; none if it has no answer.

    Raises:
        KfrecError: a table is missing or damaged.
    """

    def __init__(self, tables: Mapping[str, Path]) -> None:
        self._tables = tables
        questions = read_side_table(tables, QUESTIONS)
        self.ids: list[str] = questions["id"].to_pylist()
        self.questions: list[str] = questions["question"].to_pylist()
        self.answers: list[list[str]] = questions["answers"].to_pylist()
        self._context = questions["context"].to_numpy()

    @cached_property
    def _contexts(self) -> tuple[list[str], dict[str, tuple[np.ndarray, np.ndarray]]]:
        table = read_side_table(self._tables, CONTEXTS)
        columns = {}
        for name in ("token_begins", "token_ends"):
            lists: Any = pa.concat_arrays(table[name].chunks) if table.num_rows else pa.array([], _POSITIONS)
            columns[name] = lists.offsets.to_numpy(), lists.values.to_numpy()
        return table["context"].to_pylist(), columns

    def text(self, question: int, begin: int, end: int) -> str:
        """The characters of a question's context from one token to another, which is included."""
        texts, columns = self._contexts
        context = self._context[question]
        (offsets, begins), (_, ends) = columns["token_begins"], columns["token_ends"]
        return texts[context][begins[offsets[context] + begin] : ends[offsets[context] + end]]
