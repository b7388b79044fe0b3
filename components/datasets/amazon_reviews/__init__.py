"""Amazon product reviews of 2014, as in the public SIM: user, item and time of each review, categories of items."""

from __future__ import annotations

from collections.abc import Mapping

from components.datasets.amazon_reviews.parameters import Generation, Sampling
from components.datasets.amazon_reviews.raw_files import CONTRACT
from components.datasets.definition import DatasetDefinition
from components.feature_spec import Channel, ListLength
from components.lazy import Lazy


def lengths_of(parameters: Sampling) -> Mapping[str, ListLength]:
    """The lengths of the histories."""
    return {
        Channel.POSITIVE: ListLength(parameters.max_sequence_length, "max_sequence_length"),
        Channel.NEGATIVE: ListLength(parameters.negative_sequence_length, "negative_sequence_length"),
    }


DATASET = DatasetDefinition(
    name="amazon_reviews",
    summary="Reviews of products: the next item of a user, with the items before it.",
    raw=CONTRACT,
    generation=Generation,
    generate=Lazy("components.datasets.amazon_reviews.synthetic:write_synthetic"),
    sampling=Sampling,
    preprocess=Lazy("components.datasets.amazon_reviews.preprocess:preprocess"),
    lengths=lengths_of,
    raw_rows=Lazy("components.datasets.amazon_reviews.raw_rows:ReviewRows"),
)
