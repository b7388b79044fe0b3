"""The raw files: reviews_*.json and meta_*.json, plain or gzip, as Amazon's of 2014 are."""

from __future__ import annotations

from components.datasets.definition import RawContract, RawKind

REVIEWS = RawKind("reviews", r"(?i)reviews_.+\.json(\.gz)?", "reviews_*.json or reviews_*.json.gz", "reviews")
META = RawKind("meta", r"(?i)meta_.+\.json(\.gz)?", "meta_*.json or meta_*.json.gz", "items")
CONTRACT = RawContract((REVIEWS, META), unlisted=("reviews_Books.json.gz", "meta_Books.json.gz"))
