"""Criteo's display advertising logs: the day files of the terabyte, or the file of the Kaggle competition."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from components.datasets.criteo.parameters import Generation, Sampling
from components.datasets.criteo.raw_files import CONTRACT
from components.datasets.definition import DatasetDefinition, PreprocessJob


def _generate(parameters: Generation, folder: Path) -> None:
    from components.datasets.criteo.synthetic import write_synthetic

    write_synthetic(parameters, folder)


def _preprocess(job: PreprocessJob) -> Mapping[str, int]:
    from components.datasets.criteo.preprocess import preprocess

    return preprocess(job)


DATASET = DatasetDefinition(
    name="criteo",
    summary="Impressions of advertisements with 13 numbers and 26 categories, and whether each was clicked.",
    raw=CONTRACT,
    generation=Generation,
    generate=_generate,
    sampling=Sampling,
    preprocess=_preprocess,
    # Half of a small day would be lost.
    local_defaults={"test_day_share": 1.0},
)
