"""A user's table: CSV or parquet with a label, described by a schema file."""

from __future__ import annotations

from components.datasets.definition import DatasetDefinition
from components.datasets.tabular.parameters import Generation, Sampling
from components.datasets.tabular.raw_files import CONTRACT
from components.lazy import Lazy

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
    labelled_rows=Lazy("components.datasets.tabular.labelled:labelled_rows"),
)
