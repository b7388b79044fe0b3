"""Amazon product reviews of 2014, as in the public SIM: user, item and time of each review, categories of items."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from components.datasets.amazon_reviews.parameters import Generation, Sampling
from components.datasets.amazon_reviews.raw_files import CONTRACT
from components.datasets.definition import DatasetDefinition, PreprocessJob
from components.feature_spec import Channel, FeatureSpec, ListLength

if TYPE_CHECKING:
    from components.datasets.raw_rows import RawRows


def _generate(parameters: Generation, folder: Path) -> None:
    from components.datasets.amazon_reviews.synthetic import write_synthetic

    write_synthetic(parameters, folder)


def _preprocess(job: PreprocessJob) -> Mapping[str, int]:
    from components.datasets.amazon_reviews.preprocess import preprocess

    return preprocess(job)


def _lengths(parameters: Sampling) -> Mapping[str, ListLength]:
    return {
        Channel.POSITIVE: ListLength(parameters.max_sequence_length, "max_sequence_length"),
        Channel.NEGATIVE: ListLength(parameters.negative_sequence_length, "negative_sequence_length"),
    }


def _raw_rows(spec: FeatureSpec, inputs: Collection[str]) -> RawRows:
    from components.datasets.amazon_reviews.raw_rows import ReviewRows

    return ReviewRows(spec, inputs)


DATASET = DatasetDefinition(
    name="amazon_reviews",
    summary="Reviews of products: the next item of a user, with the items before it.",
    raw=CONTRACT,
    generation=Generation,
    generate=_generate,
    sampling=Sampling,
    preprocess=_preprocess,
    lengths=_lengths,
    raw_rows=_raw_rows,
)
