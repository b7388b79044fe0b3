"""The built-in data set: reviews in Amazon's format with learnable preferences."""

from components.datasets.amazon_reviews.synthetic.files import write_synthetic

__all__ = ["write_synthetic"]
