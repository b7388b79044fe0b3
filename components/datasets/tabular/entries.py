"""The entries of a schema: label, split, and the treatment of a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from components.workflows.values import Scalar

# A nested mapping; the types of its fields are strict themselves.
_PART = ConfigDict(extra="forbid")
LONGEST = 10_000
# Of the values of a multi-hot column that is text.
SEPARATOR = "|"
# A table has a row for each id and one for 0, and ids are int32.
MOST_BUCKETS = 2**31 - 2
Share = Annotated[StrictFloat, Field(gt=0, lt=1)]
AtLeast = Annotated[StrictInt, Field(ge=1)]
Buckets = Annotated[StrictInt, Field(ge=0, le=MOST_BUCKETS)]


@dataclass(frozen=True)
class Label:
    """Which samples are positive: a column that is 0 or 1, or one of four comparisons of a column; or a number.

    Attributes:
        in_: the positive values; ``in`` in the file.
        number: the label is the number itself, which a regression learns.
        missing: what to do with rows without a label.
    """

    __pydantic_config__ = _PART
    column: StrictStr
    above: StrictFloat | None = None
    below: StrictFloat | None = None
    equals: Scalar | None = None
    in_: Annotated[tuple[Scalar, ...] | None, Field(alias="in", min_length=1)] = None
    number: StrictBool = False
    missing: Literal["refuse", "drop"] = "refuse"

    @property
    def positive(self) -> tuple[Scalar, ...]:
        """The positive values, where ``equals`` or ``in`` gives them."""
        return self.in_ or (() if self.equals is None else (self.equals,))

    @property
    def comparisons(self) -> list[str]:
        """The comparisons given, or that it is a number; at most one is allowed."""
        given = {"above": self.above, "below": self.below, "equals": self.equals, "in": self.in_}
        given["number"] = self.number or None
        return [name for name, value in given.items() if value is not None]


@dataclass(frozen=True)
class ByFiles:
    """Tables that match ``test`` or ``validation`` are those splits; the others, or those of ``train``, train."""

    __pydantic_config__ = _PART
    by: Literal["files"]
    test: Annotated[tuple[StrictStr, ...], Field(min_length=1)]
    validation: tuple[StrictStr, ...] = ()
    train: tuple[StrictStr, ...] = ()


@dataclass(frozen=True)
class ByColumn:
    """Rows with a value of ``test`` or ``validation`` are those splits; the others, or those of ``train``, train."""

    __pydantic_config__ = _PART
    by: Literal["column"]
    column: StrictStr
    test: Annotated[tuple[Scalar, ...], Field(min_length=1)]
    validation: tuple[Scalar, ...] = ()
    train: tuple[Scalar, ...] = ()


@dataclass(frozen=True)
class ByTime:
    """The newest rows are the test split, and the newest of the others the validation split.

    Attributes:
        format: of its dates, as of strptime; empty is ISO 8601, the year first.
        share: test rows, as a share of all rows.
        since: time of the first test row, in place of the share.
        validation_share: validation rows, as a share of all rows; None is no such split.
        validation_since: time of the first validation row, in place of that share.
    """

    __pydantic_config__ = _PART
    by: Literal["time"]
    column: StrictStr
    format: StrictStr = ""
    share: Share | None = None
    since: Scalar | None = None
    validation_share: Share | None = None
    validation_since: Scalar | None = None


@dataclass(frozen=True)
class AtRandom:
    """Random shares of the rows, or of the groups where there are any, are the test and the validation split.

    Attributes:
        validation_share: of the validation split; None is no such split.
    """

    __pydantic_config__ = _PART
    by: Literal["random"]
    share: Share = 0.2
    validation_share: Share | None = None


@dataclass(frozen=True)
class Numeric:
    """A number, which becomes a float32 feature, its quantile, ids of quantile bins, or several of them.

    Attributes:
        number: whether the number itself is a feature.
        quantile: whether its quantile is one, which models expand piecewise linearly.
        scale: whether to standardise by the training rows' mean and standard deviation.
        log: take sign(x) ln(1 + |x|) of the number first.
        bins: quantile bins of a categorical feature; 0 is none, None one for each value if the column has few.
    """

    __pydantic_config__ = _PART
    role: Literal["numeric"]
    number: StrictBool = True
    quantile: StrictBool = True
    scale: Literal["standard", "none"] = "standard"
    log: StrictBool = False
    bins: Annotated[StrictInt, Field(ge=0, le=1024)] | None = None
    fill: Literal["median", "mean"] = "median"


@dataclass(frozen=True)
class Categorical:
    """One id: of a vocabulary ordered by falling count, or of a hash bucket.

    Attributes:
        at_least: rarer values share id 0 with missing ones.
        buckets: number of hash buckets instead; 0 is a vocabulary.
    """

    __pydantic_config__ = _PART
    role: Literal["categorical"]
    at_least: AtLeast = 1
    buckets: Buckets = 0


@dataclass(frozen=True)
class Multihot:
    """A list of ids; models mask rare and unknown values like padding.

    Attributes:
        longest: maximum length; later values are ignored.
        separator: separator of the values in a text column.
        at_least: as in ``Categorical``.
        buckets: as in ``Categorical``.
    """

    __pydantic_config__ = _PART
    role: Literal["multihot"]
    longest: Annotated[StrictInt, Field(ge=1, le=LONGEST)]
    separator: Annotated[StrictStr, Field(min_length=1)] = SEPARATOR
    at_least: AtLeast = 1
    buckets: Buckets = 0


@dataclass(frozen=True)
class Group:
    """Which samples are ranked against each other; a group lies in one split and, by default, in one file.

    Attributes:
        across_files: whether a group may continue in another file of its split.
    """

    __pydantic_config__ = _PART
    role: Literal["group"]
    across_files: StrictBool = False


Treatment = Annotated[Numeric | Categorical | Multihot | Group, Field(discriminator="role")]
Split = Annotated[ByFiles | ByColumn | ByTime | AtRandom, Field(discriminator="by")]
