"""Small raw files for tests."""

from __future__ import annotations

import gzip

REVIEWS = "reviews_Books.json.gz"
META = "meta_Books.json.gz"


def reviews(count: int = 2000) -> bytes:
    """Compressed reviews that fill many network packets."""
    lines = (
        f'{{"reviewerID": "A{i * 7919 % 1000003}", "asin": "B{i * 104729 % 999983}", "unixReviewTime": {i}}}\n'
        for i in range(count)
    )
    return gzip.compress("".join(lines).encode(), mtime=0)


def meta() -> bytes:
    return gzip.compress(b"{'asin': 'B1', 'categories': [['Books', 'Poetry']]}\n" * 50, mtime=0)
