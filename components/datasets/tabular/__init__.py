"""A user's table: CSV or parquet with a label, described by a schema file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from components.datasets.definition import DatasetDefinition
from components.datasets.tabular.raw_files import CONTRACT
from components.lazy import Lazy
from components.parameters import param

if TYPE_CHECKING:
    from components.datasets.parameters import PreprocessParameters


@dataclass(frozen=True)
class Generation:
    """Parameters of the synthetic table."""

    synthetic_rows: int = param(20_000, "Rows of the synthetic table", unit="rows", at_least=100)
    synthetic_shuffled_labels: bool = param(
        False, "Draw synthetic labels independently of the columns, so that a model cannot learn anything (a control)"
    )


@dataclass(frozen=True)
class Sampling:
    """How a table becomes samples."""

    schema: str = param(
        "", "File or URI of the schema of the tables; empty is schema.yaml beside them", is_file=True,
        pipeline_name="table_schema",
    )  # fmt: skip
    rows_per_partition: int = param(500_000, "Rows held in memory at a time by one worker", unit="rows", at_least=1)


if TYPE_CHECKING:

    class PreprocessTable(Sampling, PreprocessParameters):
        """The parameters of the preprocess step for this data set."""


DATASET = DatasetDefinition(
    name="tabular",
    summary="Tables of CSV or parquet files, with a schema file that names label, split and columns.",
    raw=CONTRACT,
    generation=Generation,
    generate=Lazy("components.datasets.tabular.synthetic:write_synthetic"),
    sampling=Sampling,
    preprocess=Lazy("components.datasets.tabular.preprocess:preprocess"),
    task="click",
    lacks=Lazy("components.datasets.tabular.raw_files:lacking_channels"),
    first_schema=Lazy("components.datasets.tabular.first_schema:first_schema"),
    raw_rows=Lazy("components.datasets.tabular.raw_rows:TableRows"),
    labelled_rows=Lazy("components.datasets.tabular.first_schema:labelled_rows"),
)
