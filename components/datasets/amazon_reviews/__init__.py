"""Amazon product reviews of 2014, as in the public SIM: user, item and time of each review, categories of items."""

from __future__ import annotations

from components.datasets.definition import DatasetDefinition, RawContract, RawKind
from components.datasets.histories.parameters import Generation, Sampling, lengths_of
from components.feature_spec import Channel
from components.lazy import Lazy

# As Amazon's files of 2014 are.
REVIEWS = RawKind("reviews", r"(?i)reviews_.+\.json(\.gz)?", "reviews_*.json or reviews_*.json.gz", "reviews")
META = RawKind("meta", r"(?i)meta_.+\.json(\.gz)?", "meta_*.json or meta_*.json.gz", "items")
CONTRACT = RawContract((REVIEWS, META), unlisted=("reviews_Books.json.gz", "meta_Books.json.gz"))

DATASET = DatasetDefinition(
    name="amazon_reviews",
    summary="Reviews of products: the next item of a user, with the items before it.",
    raw=CONTRACT,
    generation=Generation,
    generate=Lazy("components.datasets.amazon_reviews.synthetic:write_synthetic"),
    sampling=Sampling,
    preprocess=Lazy("components.datasets.amazon_reviews.preprocess:preprocess"),
    histories=Lazy("components.datasets.amazon_reviews.preprocess:histories"),
    lengths=lengths_of,
    task="click",
    lacks=lambda source, parameters: (Channel.GROUP,),
    raw_rows=Lazy("components.datasets.histories.raw_rows:ReviewRows"),
)
