"""A model of raw rows, or a pair of them, as a server calls it: columns in, tables out."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from components.datasets.raw_rows import CANDIDATE, CONTEXT, HISTORY, TEXTS, USER
from components.errors import KfrecError
from components.scoring.catalogue import Catalogue
from components.scoring.model import as_column
from components.scoring.pair import is_pair, load_pair
from components.scoring.raw import UNKNOWN, RawModel, load_raw_model
from components.scoring.recommend import RANK, recommend
from components.workflows.values import array_of

# Length of the list that a pair returns unless a request asks for another one.
TOP_OF_A_PAIR = 20
# Sets of candidates that stay encoded: requests name the same ones again, such as what is in stock.
_CATALOGUES = 4


@dataclass(frozen=True)
class Wanted:
    """The parameters of a request.

    Attributes:
        top: length of a row's list; 0 scores the rows.
        keep_seen: whether items of the history are ranked, too; None is what the model was judged by.
        candidates: items to rank; empty ranks all of the vocabulary.
        exclude: items that are not ranked.
        per_category: most items of a category in a list; 0 is any number.
    """

    top: int = 0
    keep_seen: bool | None = None
    candidates: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    per_category: int = 0


# Types of the values of parameters that are no lists.
_TYPES = {"top": int, "keep_seen": bool, "per_category": int}


@dataclass(frozen=True)
class Request:
    """Checked rows with the parameters of their request.

    Attributes:
        columns: what the model reads, ``[rows, ...]`` each.
        group: equal for requests that are answered together.
    """

    columns: Mapping[str, Any]
    rows: int
    wanted: Wanted = Wanted()
    group: Hashable = None


class Tensor(NamedTuple):
    """A column of a request or an answer.

    Attributes:
        dtype: NumPy's name of its type, or "str".
        shape: of a row's value; -1 is any length.
    """

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Answer:
    """The answer to a request.

    Attributes:
        table: the model's outputs and the number of unknown ids, a row each; or the lists of all rows, one after the
            other, as ``components.scoring.recommend.Recommended`` describes them.
        unknown: ids of the request that the model has never seen.
        owners: of lists, the row of the request that each row of the table is for, int32; None of scores.
    """

    table: pa.Table
    unknown: int
    owners: np.ndarray | None = None


class Served:
    """Scores rows, or ranks all candidates for rows without one.

    Args:
        folder: the model's, or the pair's, of which the ranker scores rows.
    """

    def __init__(self, folder: Path) -> None:
        self._pair = load_pair(folder) if is_pair(folder) else None
        self.model = self._pair.ranker if self._pair else load_raw_model(folder)
        self._default = Wanted(top=TOP_OF_A_PAIR if self._pair else 0)
        item = self.model.column_of(CANDIDATE)
        self._ranks = item is not None
        self.takes = {
            column.name: Tensor("str", (-1,) if column.kind == TEXTS else ())
            for column in self.model.columns
            if self._pair is None or column != item
        }
        user = self.model.column_of(USER)
        # Columns of users and candidates; empty if the model reads none.
        self.user, self.item = user.name if user else "", item.name if item else ""
        nothing = self.model.nothing() | {UNKNOWN: np.zeros(0, np.int32)}
        self.returns = {name: tensor_of(values) for name, values in nothing.items()}
        self.catalogue_of = lru_cache(_CATALOGUES)(self._catalogue_of)

    def predict(self, rows: pd.DataFrame, **parameters: Any) -> pd.DataFrame:
        """The answer to one request as pandas has it; see ``request``."""
        given = {str(name): rows[name] for name in rows.columns}
        (answer,) = self.answer([self.request(given, len(rows), parameters)])
        table: pd.DataFrame = answer.table.to_pandas()
        return table

    def request(self, given: Mapping[str, Any], rows: int, parameters: Mapping[str, Any]) -> Request:
        """Checks a request.

        Args:
            given: the model's columns, without the candidate's if there are to be lists; others are ignored.
            rows: length of a column.
            parameters: see ``Wanted``.

        Raises:
            KfrecError: a parameter is unknown or invalid, a column is missing or one too many, or an item is null.
        """
        wanted = wanted_of(self.model, self._default, parameters if self._ranks else without_parameters(parameters))
        read = {column.name for column in self.model.columns} | ({USER} if wanted.top else set())
        # Without rows, a table's types are arbitrary; MLflow makes lists float64.
        columns = {
            name: array_of(name, values) if rows else pa.nulls(0) for name, values in given.items() if name in read
        }
        _require_items(self.model, columns)
        item = self.model.column_of(CANDIDATE)
        self.model.require({**columns, item.name: None} if item else columns)
        if not wanted.top:
            if wanted.candidates or wanted.exclude or wanted.per_category:
                raise KfrecError(
                    "parameters candidates, exclude and per_category are of lists; give the parameter top, too"
                )
            if item is not None and item.name not in columns:
                raise KfrecError(
                    f"the rows have no column {item.name}; give the candidates to score, or the parameter top to rank "
                    "all of them"
                )
        elif item is not None and item.name in columns:
            raise KfrecError(
                f"the rows have a column {item.name} and the parameter top={wanted.top}; drop the column to rank all "
                "candidates, or the parameter to score these"
            )
        return Request(columns, rows, wanted, _group(columns, wanted))

    def answer(self, requests: Sequence[Request]) -> list[Answer]:
        """Answers requests of one ``group`` together.

        Raises:
            KfrecError: a value cannot be encoded.
        """
        first = requests[0]
        columns = {
            name: pa.concat_arrays([request.columns[name] for request in requests]) for name in first.columns
        } if len(requests) > 1 else first.columns  # fmt: skip
        return self._lists(requests, columns) if first.wanted.top else self._scores(requests, columns)

    def example(self) -> list[Request]:
        """A request for scores and, if the model ranks, one for a list, of one known row."""
        row = {name: values[:1] for name, values in self.model.rows.example().items()}
        item = self.model.column_of(CANDIDATE)
        lists = {name: values for name, values in row.items() if item is None or name != item.name}
        asked = [] if self._pair else [self.request(row, 1, {})]
        return asked + ([self.request(lists, 1, {"top": TOP_OF_A_PAIR})] if self._ranks else [])

    def _scores(self, requests: Sequence[Request], columns: Mapping[str, pa.Array]) -> list[Answer]:
        scored = self.model.score(columns)
        unknown = scored.unknown_ids
        outputs = {name: as_column(values) for name, values in scored.outputs.items()}
        table = pa.table({**outputs, UNKNOWN: unknown})
        parts = parts_of([request.rows for request in requests])
        return [Answer(table.slice(part.start, part.stop - part.start), int(unknown[part].sum())) for part in parts]

    def _lists(self, requests: Sequence[Request], columns: Mapping[str, pa.Array]) -> list[Answer]:
        wanted, rows = requests[0].wanted, [request.rows for request in requests]
        reads = self.model.column_of(USER)
        user = reads.name if reads else USER
        names = self.model.spelled(user, columns[user]).to_pylist() if user in columns else [""] * sum(rows)
        history = self.model.column_of(HISTORY)
        histories = self.model.events(columns) if history else [[]] * sum(rows)
        context = {each.name: columns[each.name] for each in self.model.columns if each.role == CONTEXT}
        tops = np.repeat([request.wanted.top for request in requests], rows)
        lists = recommend(
            self.catalogue_of(wanted.candidates),
            [name or "" for name in names],
            self.model.event_lists([events or [] for events in histories]),
            int(tops.max(initial=0)),
            keep_seen=wanted.keep_seen,
            per_category=wanted.per_category,
            excluded=[list(request.wanted.exclude) for request in requests for _ in range(request.rows)],
            context=context,
        )
        is_asked = lists.table[RANK].to_numpy() <= np.repeat(tops, lists.lengths)
        table = lists.table if is_asked.all() else lists.table.filter(is_asked)
        lengths = np.minimum(lists.lengths, tops)
        ends = np.concatenate([[0], np.cumsum(lengths)])
        return [
            Answer(
                table.slice(ends[part.start], ends[part.stop] - ends[part.start]),
                int(lists.unknown[part].sum()),
                np.repeat(np.arange(part.stop - part.start, dtype=np.int32), lengths[part]),
            )
            for part in parts_of(rows)
        ]

    def _catalogue_of(self, candidates: tuple[str, ...]) -> Catalogue:
        """Some candidates, or every one of the vocabulary."""
        items = pa.array(candidates, pa.string()) if candidates else None
        return (
            self._pair.catalogue(lambda model: Catalogue(model, items)) if self._pair else Catalogue(self.model, items)
        )


def tensor_of(values: np.ndarray) -> Tensor:
    """The description of an output ``[n, ...]``."""
    return Tensor("str" if values.dtype.kind in "US" else values.dtype.name, values.shape[1:])


def wanted_of(model: RawModel, default: Wanted, parameters: Mapping[str, Any]) -> Wanted:
    """The parameters of a request, checked; items are ids as in the columns.

    Raises:
        KfrecError: one is unknown, or has a value of another type.
    """
    known = {field.name: getattr(default, field.name) for field in fields(Wanted)}
    if unknown := sorted(set(parameters) - set(known)):
        raise KfrecError(f"unknown parameters: {', '.join(unknown)}; there are {', '.join(known)}")
    read: dict[str, Any] = {}
    for name, value in parameters.items():
        if value is None:
            continue  # a parameter without a default, as MLflow passes it
        if isinstance(known[name], tuple):
            items = value.tolist() if isinstance(value, np.ndarray) else value
            if not isinstance(items, list | tuple) or not all(type(item) in (str, int, float) for item in items):
                raise KfrecError(f"parameter {name} is a list of items; give their ids as text")
            ids = model.spelled(name, array_of(name, items))
            if ids.null_count:
                raise KfrecError(f"parameter {name} has {items[ids.is_null().index(True).as_py()]!r}, which is no id")
            read[name] = tuple(ids.to_pylist())
        elif type(value) is not _TYPES[name]:
            raise KfrecError(f"parameter {name}={value!r} is not of the type {_TYPES[name].__name__}")
        else:
            read[name] = value
    wanted = replace(default, **read)
    if wanted.top < 0:
        raise KfrecError(f"parameter top={wanted.top} is below 0; give the length of a list")
    if wanted.per_category < 0:
        raise KfrecError(f"parameter per_category={wanted.per_category} is below 0; give the items of a category, or 0")
    return wanted


def without_parameters(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of a request to a model that takes none.

    Raises:
        KfrecError: there are some.
    """
    if parameters:
        raise KfrecError(f"unknown parameters: {', '.join(sorted(parameters))}; this model takes none")
    return parameters


def _group(columns: Mapping[str, pa.Array], wanted: Wanted) -> Hashable:
    """Requests go together if their columns have the same types; lengths of lists and exclusions may differ."""
    types = tuple((name, str(values.type)) for name, values in sorted(columns.items()))
    return types, replace(wanted, top=min(wanted.top, 1), exclude=())


def _require_items(model: RawModel, columns: Mapping[str, pa.Array]) -> None:
    for column in model.columns:
        if column.role in (HISTORY, CANDIDATE) and column.name in columns:
            values = columns[column.name]
            is_listed = pa.types.is_list(values.type) or pa.types.is_large_list(values.type)
            items = values.flatten() if is_listed else values
            # A history itself may be missing.
            if items.null_count and (is_listed or column.role == CANDIDATE):
                raise KfrecError(f"column {column.name} has a null in place of an item; give its id, or leave it out")


def parts_of(rows: Sequence[int]) -> list[slice]:
    """The rows of each of several requests of so many rows, one after the other."""
    ends = np.cumsum(rows).tolist()
    return [slice(end - count, end) for end, count in zip(ends, rows, strict=True)]
