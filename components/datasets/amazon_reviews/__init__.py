"""Amazon product reviews of 2014, as in the public SIM: user, item and time of each review, categories of items."""

from __future__ import annotations

from components.datasets.amazon_reviews.raw_files import CONTRACT
from components.datasets.definition import DatasetDefinition
from components.datasets.histories.parameters import Generation, Sampling, lengths_of
from components.lazy import Lazy

DATASET = DatasetDefinition(
    name="amazon_reviews",
    summary="Reviews of products: the next item of a user, with the items before it.",
    raw=CONTRACT,
    generation=Generation,
    generate=Lazy("components.datasets.amazon_reviews.synthetic:write_synthetic"),
    sampling=Sampling,
    preprocess=Lazy("components.datasets.amazon_reviews.preprocess:preprocess"),
    lengths=lengths_of,
    raw_rows=Lazy("components.datasets.histories.raw_rows:ReviewRows"),
)
