"""Anyone's table: CSV or parquet with a label, described by a schema file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from components.datasets.definition import DatasetDefinition, PreprocessJob
from components.datasets.tabular.parameters import Generation, Sampling
from components.datasets.tabular.raw_files import CONTRACT

if TYPE_CHECKING:
    from components.datasets.raw_rows import RawRows
    from components.feature_spec import FeatureSpec


def _generate(parameters: Generation, folder: Path) -> None:
    from components.datasets.tabular.synthetic import write_synthetic

    write_synthetic(parameters, folder)


def _preprocess(job: PreprocessJob) -> Mapping[str, int]:
    from components.datasets.tabular.preprocess import preprocess

    return preprocess(job)


def _raw_rows(spec: FeatureSpec, inputs: Collection[str]) -> RawRows:
    from components.datasets.tabular.raw_rows import TableRows

    return TableRows(spec, inputs)


DATASET = DatasetDefinition(
    name="tabular",
    summary="Tables of CSV or parquet files, with a schema file that tells label, split and columns.",
    raw=CONTRACT,
    generation=Generation,
    generate=_generate,
    sampling=Sampling,
    preprocess=_preprocess,
    raw_rows=_raw_rows,
)
