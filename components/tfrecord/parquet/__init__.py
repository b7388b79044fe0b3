"""Reading columns of integer lists from parquet, at twice the speed of the general reader."""

from components.tfrecord.parquet.lists import read_lists
from components.tfrecord.parquet.pages import Unusual

__all__ = ["Unusual", "read_lists"]
