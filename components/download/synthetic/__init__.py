"""The built-in data set: reviews that look like Amazon's and hold something to learn."""

from components.download.synthetic.files import write_synthetic

__all__ = ["write_synthetic"]
