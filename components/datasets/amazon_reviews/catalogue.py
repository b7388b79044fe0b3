"""The category of each item, by id: vocabulary/catalogue.parquet, with which raw rows are encoded at serving time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.artifacts.folder import require_listed
from components.datasets.amazon_reviews.popularity import Popularity
from components.errors import KfrecError

CATALOGUE = "vocabulary/catalogue.parquet"
# Items that no review had, which only a vocabulary of earlier data has.
NONE = 0


def write_catalogue(popularity: Popularity, earlier: np.ndarray | None, largest: int, folder: Path) -> None:
    """Writes columns item and cat (int32), one row for each item whose category is known.

    Args:
        popularity: the pairs of this data.
        earlier: what :func:`read_catalogue` gave of the data that the vocabulary comes from, for items that this data
            lacks.
        largest: id of an item.
        folder: of the artifact.
    """
    categories = np.full(largest + 1, NONE, np.int32)
    if earlier is not None:
        known = min(len(earlier), len(categories))
        categories[:known] = earlier[:known]
    categories[popularity.items] = popularity.categories
    items = np.flatnonzero(categories).astype(np.int32)
    pq.write_table(pa.table({"item": items, "cat": categories[items]}), folder / CATALOGUE)


def read_catalogue(folder: Path) -> np.ndarray | None:
    """Item to category, int32; NONE where it is not known. None where there is no catalogue.

    Raises:
        KfrecError: the file is damaged.
    """
    path = folder / CATALOGUE
    require_listed(folder, [CATALOGUE])
    try:
        table = pq.read_table(path, columns=["item", "cat"])
        items, categories = (table[name].to_numpy().astype(np.int64) for name in ("item", "cat"))
        if len(items) and (items.min() < 0 or items.max() >= 2**31 or categories.min() < 0):
            raise ValueError("an id is out of range")
    except FileNotFoundError:
        return None
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise KfrecError(f"{path}: no catalogue of items ({str(error).splitlines()[0]}); restore the file") from None
    found = np.full(int(items.max(initial=0)) + 1, NONE, np.int32)
    found[items] = categories
    return found
