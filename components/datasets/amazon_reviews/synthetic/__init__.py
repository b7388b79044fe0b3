"""The built-in data set: reviews that look like Amazon's and hold something to learn."""

from components.datasets.amazon_reviews.synthetic.files import write_synthetic

__all__ = ["write_synthetic"]
