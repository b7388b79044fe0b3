"""The schema of a table: schema.yaml, as typed data; docs/bring-your-own-data.md describes it to its writer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from components.errors import KfrecError
from components.steps.parameter import unknown_parameter
from components.steps.settings_file import Several, merge

# A nested mapping; the types of its fields are strict themselves.
_PART = ConfigDict(extra="forbid")
EVERY_OTHER = "*"
LONGEST = 10_000
# A table has a row for each id and one for 0, and ids are int32.
MOST_BUCKETS = 2**31 - 2
DEFAULT_MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "\\N")

# YAML reads 2013-11-01 as a date; tables hold it as text.
Scalar = Annotated[
    StrictStr | StrictBool | StrictInt | StrictFloat,
    BeforeValidator(lambda value: value.isoformat() if isinstance(value, date) else value),
]
Share = Annotated[StrictFloat, Field(gt=0, lt=1)]
AtLeast = Annotated[StrictInt, Field(ge=1)]
Buckets = Annotated[StrictInt, Field(ge=0, le=MOST_BUCKETS)]


@dataclass(frozen=True)
class Label:
    """Which samples are positive: a column that is 0 or 1, or one of four comparisons of a column.

    Attributes:
        column: of the table.
        above: positive where the number is larger.
        below: positive where the number is smaller.
        equals: the positive value.
        in_: the positive values; ``in`` in the file.
        missing: what to do with rows without a label.
    """

    __pydantic_config__ = _PART
    column: StrictStr
    above: StrictFloat | None = None
    below: StrictFloat | None = None
    equals: Scalar | None = None
    in_: Annotated[tuple[Scalar, ...] | None, Field(alias="in", min_length=1)] = None
    missing: Literal["refuse", "drop"] = "refuse"

    @property
    def positive(self) -> tuple[Scalar, ...]:
        """The positive values, where ``equals`` or ``in`` gives them."""
        return self.in_ or (() if self.equals is None else (self.equals,))

    @property
    def comparisons(self) -> list[str]:
        """Those that are given; at most one may be."""
        given = {"above": self.above, "below": self.below, "equals": self.equals, "in": self.in_}
        return [name for name, value in given.items() if value is not None]


@dataclass(frozen=True)
class ByFiles:
    """Tables that match ``test`` are the test split; the others, or those that match ``train``, train."""

    __pydantic_config__ = _PART
    by: Literal["files"]
    test: Annotated[tuple[StrictStr, ...], Field(min_length=1)]
    train: tuple[StrictStr, ...] = ()


@dataclass(frozen=True)
class ByColumn:
    """Rows whose column has a value in ``test`` are the test split; the others, or those in ``train``, train."""

    __pydantic_config__ = _PART
    by: Literal["column"]
    column: StrictStr
    test: Annotated[tuple[Scalar, ...], Field(min_length=1)]
    train: tuple[Scalar, ...] = ()


@dataclass(frozen=True)
class ByTime:
    """The newest rows are the test split: a share of all rows, or those from a time on."""

    __pydantic_config__ = _PART
    by: Literal["time"]
    column: StrictStr
    share: Share | None = None
    since: Scalar | None = None


@dataclass(frozen=True)
class ByChance:
    """A random share of the rows, or of the groups where there are any, is the test split."""

    __pydantic_config__ = _PART
    by: Literal["random"]
    share: Share = 0.2


@dataclass(frozen=True)
class Numeric:
    """A number, which becomes a float32 feature, ids of quantile bins, or both.

    Attributes:
        number: whether the number itself is a feature.
        scale: subtract the mean and divide by the standard deviation of the training rows, or not.
        log: take sign(x) ln(1 + |x|) first.
        bins: quantile bins of a categorical feature beside the number; 0 is none.
        fill: what stands for a missing number.
    """

    __pydantic_config__ = _PART
    role: Literal["numeric"]
    number: StrictBool = True
    scale: Literal["standard", "none"] = "standard"
    log: StrictBool = False
    bins: Annotated[StrictInt, Field(ge=0, le=1024)] = 0
    fill: Literal["median", "mean"] = "median"


@dataclass(frozen=True)
class Categorical:
    """One id: of a vocabulary ordered by falling count, or of a hash bucket.

    Attributes:
        at_least: rarer values share id 0 with missing ones.
        buckets: hash into so many instead; 0 is a vocabulary.
    """

    __pydantic_config__ = _PART
    role: Literal["categorical"]
    at_least: AtLeast = 1
    buckets: Buckets = 0


@dataclass(frozen=True)
class Multihot:
    """A list of ids; rare and unknown values are left out by the models, as padding is.

    Attributes:
        longest: values after the first so many are ignored.
        separator: between the values, where the column is text.
        at_least: as in :class:`Categorical`.
        buckets: as in :class:`Categorical`.
    """

    __pydantic_config__ = _PART
    role: Literal["multihot"]
    longest: Annotated[StrictInt, Field(ge=1, le=LONGEST)]
    separator: Annotated[StrictStr, Field(min_length=1)] = "|"
    at_least: AtLeast = 1
    buckets: Buckets = 0


@dataclass(frozen=True)
class Group:
    """Which samples are ranked against each other; a group lies in one split and, unless told otherwise, in one file.

    Attributes:
        across_files: whether a group may continue in another file of its split.
    """

    __pydantic_config__ = _PART
    role: Literal["group"]
    across_files: StrictBool = False


Treatment = Annotated[Numeric | Categorical | Multihot | Group, Field(discriminator="role")]
Split = Annotated[ByFiles | ByColumn | ByTime | ByChance, Field(discriminator="by")]


@dataclass(frozen=True)
class Source:
    """A column, and the feature that is made of it.

    Attributes:
        name: of the feature: that of the column, with ``_`` for what is no letter, digit or underscore.
        column: of the table.
        treatment: how.
    """

    name: str
    column: str
    treatment: Numeric | Categorical | Multihot | Group

    @property
    def vocabulary(self) -> Categorical | Multihot | None:
        """The treatment, where the ids are of a vocabulary rather than hashed; None for all others."""
        if isinstance(self.treatment, Categorical | Multihot) and not self.treatment.buckets:
            return self.treatment
        return None


@dataclass(frozen=True)
class TableSchema:
    """A table, as its file describes it.

    Attributes:
        label: which samples are positive.
        split: which rows are for the test.
        columns: column to role and treatment.
        drop: columns that are not read; ``*`` is every other one.
        files: patterns of the tables' names.
        format: of the files; "auto" goes by the name.
        delimiter: between the values of a CSV file.
        names: of the columns, for CSV files without a header.
        missing: texts that stand for a missing value.
    """

    label: Label
    split: Split
    columns: Annotated[Mapping[StrictStr, Treatment], Field(min_length=1)]
    drop: Several[str] = ()
    files: Several[str] = ("*",)
    format: Literal["auto", "csv", "parquet"] = "auto"
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    names: Several[str] = ()
    missing: Several[str] = DEFAULT_MISSING

    def __post_init__(self) -> None:
        """Checks the entries against each other.

        Raises:
            ValueError: they do not go together.
        """
        if len(self.label.comparisons) > 1:
            raise ValueError(f"label: {' and '.join(self.label.comparisons)} are given; give one of them")
        if self.label.column in self.columns:
            raise ValueError(f"columns: {self.label.column} is the label; take it out, since a model would read it")
        if isinstance(self.split, ByTime) and (self.split.share is None) == (self.split.since is None):
            raise ValueError("split: by: time needs either share or since; give one of them")
        for column in self.drop:
            if column in (*self.columns, self.label.column):
                raise ValueError(f"drop: {column} is used; take it out of drop, or out of where it is used")
        if len(groups := [s.column for s in self.sources if isinstance(s.treatment, Group)]) > 1:
            raise ValueError(f"columns: {' and '.join(groups)} are both of the role group; keep one of them")
        if len(groups) == len(self.columns):
            raise ValueError("columns: none is a feature; give one the role numeric, categorical or multihot")
        for source in self.sources:
            if isinstance(source.treatment, Numeric) and not (source.treatment.number or source.treatment.bins):
                raise ValueError(f"columns: {source.column}: number is false and bins is 0; ask for one of them")
            if isinstance(source.treatment, Numeric) and source.treatment.bins == 1:
                raise ValueError(f"columns: {source.column}: bins is 1; give at least 2, or 0 for none")
        taken: dict[str, str] = {}
        for name, column in self._features():
            if name in taken:
                raise ValueError(f"columns: {taken[name]} and {column} both make a feature {name}; rename one of them")
            taken[name] = column

    @property
    def sources(self) -> tuple[Source, ...]:
        """The columns that become features, in order."""
        return tuple(Source(feature_name(column), column, treatment) for column, treatment in self.columns.items())

    @property
    def group(self) -> Source | None:
        """The column of the groups."""
        return next((source for source in self.sources if isinstance(source.treatment, Group)), None)

    @property
    def read(self) -> tuple[str, ...]:
        """The columns that are read, each once."""
        split = (self.split.column,) if isinstance(self.split, ByColumn | ByTime) else ()
        return tuple(dict.fromkeys((self.label.column, *split, *self.columns)))

    def _features(self) -> Iterator[tuple[str, str]]:
        """Names of all features that may come to be, each with its column."""
        yield feature_name(self.label.column), self.label.column
        for source in self.sources:
            if not isinstance(source.treatment, Numeric) or source.treatment.number:
                yield source.name, source.column
            if isinstance(source.treatment, Numeric):
                yield missing_name(source.name), source.column
                if source.treatment.bins:
                    yield bin_name(source.name), source.column


def feature_name(column: str) -> str:
    """The name of a feature: of the signature of an exported model, and of a file of its vocabulary."""
    return re.sub(r"\W", "_", column, flags=re.ASCII).lstrip("_") or "column"


def bin_name(name: str) -> str:
    """The feature of a number's quantile bins."""
    return f"{name}_bin"


def missing_name(name: str) -> str:
    """The feature that tells where a number was missing; NVTabular's name for it."""
    return f"{name}_filled"


def parse_schema(place: str, body: Mapping[str, Any]) -> TableSchema:
    """Checks a schema.

    Args:
        place: the file, for messages.
        body: what YAML gave.

    Raises:
        KfrecError: an entry is missing, unknown or wrong, or two do not go together.
    """
    known = [entry.name for entry in fields(TableSchema)]
    for name in body:
        if name not in known:
            raise KfrecError(f"{place}: {unknown_parameter(str(name), known)}")
    for name in ("label", "split", "columns"):
        if name not in body:
            raise KfrecError(f"{place}: has no {name}; add it")
    return merge({place: body}, TableSchema)
