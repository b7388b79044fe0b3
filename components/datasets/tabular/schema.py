"""The schema of a table: schema.yaml, as typed data; see docs/bring-your-own-data.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import combinations
from typing import Annotated, Any, Literal

from pydantic import Field, StrictStr

from components.datasets.tabular.entries import (
    AtRandom,
    ByColumn,
    ByFiles,
    ByTime,
    Categorical,
    Group,
    Label,
    Multihot,
    Numeric,
    Split,
    Treatment,
)
from components.errors import KfrecError
from components.feature_spec.spec import TEST, TRAIN, VALIDATION
from components.parameters import unknown_parameter
from components.settings_file import Several, merge
from components.workflows.csv_records import LONGEST_RECORD
from components.workflows.tables import Layout
from components.workflows.values import DEFAULT_MISSING

# A row's split is stored as its place in this list.
SPLITS = (TRAIN, TEST, VALIDATION)


@dataclass(frozen=True)
class Source:
    """A column and its feature.

    Attributes:
        name: feature name: the column's, with ``_`` for all but letters, digits and underscores.
    """

    name: str
    column: str
    treatment: Numeric | Categorical | Multihot | Group

    @property
    def vocabulary(self) -> Categorical | Multihot | None:
        """The treatment, if its ids come from a vocabulary; else None."""
        if isinstance(self.treatment, Categorical | Multihot) and not self.treatment.buckets:
            return self.treatment
        return None


@dataclass(frozen=True)
class TableSchema:
    """The schema of a table.

    Attributes:
        split: which rows are test and validation rows.
        drop: columns that are not read; ``*`` is every other one.
        format: file format; "auto" goes by the name.
        quoting: what a quote in quotes of a CSV file is written as: two quotes, or with a backslash before it; or none,
            where a quote is a character like others.
        longest_record: lines that a record of a CSV file may span, in quotes.
        names: column names of CSV files without a header.
        missing: texts that stand for a missing value.
    """

    label: Label
    split: Split
    columns: Annotated[Mapping[StrictStr, Treatment], Field(min_length=1)]
    drop: Several[str] = ()
    files: Several[str] = ("*",)
    format: Literal["auto", "csv", "parquet"] = "auto"
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    quoting: Literal["double", "backslash", "none"] = "double"
    longest_record: Annotated[int, Field(ge=1)] = LONGEST_RECORD
    names: Several[str] = ()
    missing: Several[str] = DEFAULT_MISSING
    decimal: Literal[".", ","] = "."

    def __post_init__(self) -> None:
        """Checks the entries against each other.

        Raises:
            ValueError: they are inconsistent.
        """
        if len(self.label.comparisons) > 1:
            raise ValueError(f"label: {' and '.join(self.label.comparisons)} are given; give one of them")
        if self.label.column in self.columns:
            raise ValueError(f"columns: {self.label.column} is the label; take it out, since a model would read it")
        if isinstance(self.split, ByTime) and (self.split.share is None) == (self.split.since is None):
            raise ValueError("split: by: time needs either share or since; give one of them")
        if isinstance(self.split, ByTime) and None not in (self.split.validation_share, self.split.validation_since):
            raise ValueError("split: by: time has validation_share and validation_since; give one of them")
        if isinstance(self.split, ByTime | AtRandom):
            shares = (self.split.share or 0) + (self.split.validation_share or 0)
            if shares >= 1:
                raise ValueError(f"split: share and validation_share add up to {shares:g}; leave rows to train on")
        if isinstance(self.split, ByColumn | ByFiles):
            lists = {name: getattr(self.split, name) for name in ("test", "validation", "train")}
            for (one, some), (other, others) in combinations(lists.items(), 2):
                for value in (value for value in some if value in others):
                    raise ValueError(f"split: {value} is in both {one} and {other}; take it out of one of them")
        for column in self.drop:
            if column in (*self.columns, self.label.column):
                raise ValueError(f"drop: {column} is used; take it out of drop, or out of where it is used")
        if len(groups := [s.column for s in self.sources if isinstance(s.treatment, Group)]) > 1:
            raise ValueError(f"columns: {' and '.join(groups)} are both of the role group; keep one of them")
        if len(groups) == len(self.columns):
            raise ValueError("columns: none is a feature; give one the role numeric, categorical or multihot")
        for source in self.sources:
            if isinstance(source.treatment, Numeric) and source.treatment.bins == 1:
                raise ValueError(f"columns: {source.column}: bins is 1; give at least 2, or 0 for none")
            if isinstance(source.treatment, Numeric) and not made_of(source.name, source.treatment, False):
                raise ValueError(
                    f"columns: {source.column}: number and quantile are false without bins; ask for one of them"
                )
        taken: dict[str, str] = {}
        for name, column in self._features():
            if name in taken:
                raise ValueError(f"columns: {taken[name]} and {column} both make a feature {name}; rename one of them")
            taken[name] = column

    @property
    def sources(self) -> tuple[Source, ...]:
        """The columns that become features, in order.

        Names that differ only in letters that features lack are numbered.
        """
        sources: list[Source] = []
        taken = {feature_name(self.label.column)}
        for column, treatment in self.columns.items():
            name = first = feature_name(column)
            number = 2
            while name in taken and not column.isascii():
                name, number = f"{first}_{number}", number + 1
            taken.add(name)
            sources.append(Source(name, column, treatment))
        return tuple(sources)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that the samples have, by ``SPLITS``."""
        names = ("validation", "validation_share", "validation_since")
        given = [getattr(self.split, name, None) for name in names]
        return SPLITS if any(value not in (None, ()) for value in given) else SPLITS[:2]

    @property
    def group(self) -> Source | None:
        return next((source for source in self.sources if isinstance(source.treatment, Group)), None)

    @property
    def read(self) -> tuple[str, ...]:
        """The columns that are read, each once."""
        split = (self.split.column,) if isinstance(self.split, ByColumn | ByTime) else ()
        return tuple(dict.fromkeys((self.label.column, *split, *self.columns)))

    @property
    def layout(self) -> Layout:
        """How the tables are written and read."""
        return Layout(self.delimiter, self.names, self.read, self.format, self.quoting, self.longest_record, self.drop)

    def _features(self) -> Iterator[tuple[str, str]]:
        """Names of all possible features, each with its column."""
        yield feature_name(self.label.column), self.label.column
        for source in self.sources:
            if isinstance(source.treatment, Numeric):
                for name in (*made_of(source.name, source.treatment), missing_name(source.name)):
                    yield name, source.column
            else:
                yield source.name, source.column


def feature_name(column: str) -> str:
    """The feature name, used in exported signatures and vocabulary file names."""
    name = re.sub(r"\W", "_", column, flags=re.ASCII).lstrip("_")
    # Names of a signature are names in Python.
    return name if name and not name[0].isdigit() else f"column_{name}".rstrip("_")


def bin_name(name: str) -> str:
    """The feature of a number's quantile bins."""
    return f"{name}_bin"


def quantile_name(name: str) -> str:
    """The feature of a number's quantile."""
    return f"{name}_quantile"


def made_of(name: str, number: Numeric, few: bool = True) -> tuple[str, ...]:
    """The features of a number ``name``, but for the missing indicator.

    Args:
        few: whether its column has few values, or may have.
    """
    binned = few if number.bins is None else number.bins > 0
    asked = {name: number.number, quantile_name(name): number.quantile, bin_name(name): binned}
    return tuple(feature for feature, wanted in asked.items() if wanted)


def missing_name(name: str) -> str:
    """The missing indicator of a number, by NVTabular's name."""
    return f"{name}_filled"


def parse_schema(place: str, body: Mapping[str, Any]) -> TableSchema:
    """Checks a schema.

    Args:
        place: the file, for messages.

    Raises:
        KfrecError: an entry is missing, unknown or wrong, or two are inconsistent.
    """
    known = [entry.name for entry in fields(TableSchema)]
    for name in body:
        if name not in known:
            raise KfrecError(f"{place}: {unknown_parameter(str(name), known)}")
    for name in ("label", "split", "columns"):
        if name not in body:
            raise KfrecError(f"{place}: has no {name}; add it")
    return merge({place: body}, TableSchema)
