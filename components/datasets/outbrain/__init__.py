"""Outbrain Click Prediction, as in the public Wide & Deep: ads shown below articles, and which of them was clicked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from components.datasets.definition import DatasetDefinition, PreprocessJob
from components.datasets.outbrain.parameters import Generation, Sampling
from components.datasets.outbrain.raw_files import CONTRACT


def _generate(parameters: Generation, folder: Path) -> None:
    from components.datasets.outbrain.synthetic import write_synthetic

    write_synthetic(parameters, folder)


def _preprocess(job: PreprocessJob) -> Mapping[str, int]:
    from components.datasets.outbrain.preprocess import preprocess

    return preprocess(job)


DATASET = DatasetDefinition(
    name="outbrain",
    summary="Ads in displays on pages, of which one was clicked.",
    raw=CONTRACT,
    generation=Generation,
    generate=_generate,
    sampling=Sampling,
    preprocess=_preprocess,
)
