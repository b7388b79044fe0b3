"""Item id to category: vocabulary/catalogue.parquet, used to encode raw rows at serving time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.artifacts.folder import require_listed
from components.datasets.histories.popularity import Popularity
from components.errors import KfrecError

CATALOGUE = "vocabulary/catalogue.parquet"
# Category of items without reviews, which only an earlier vocabulary has.
NONE = 0


def write_catalogue(popularity: Popularity, earlier: np.ndarray | None, largest: int, folder: Path) -> None:
    """Writes columns item and cat (int32), one row per item of known category.

    Args:
        popularity: (item, category) pairs of this data.
        earlier: catalogue of the vocabulary's own data, see ``read_catalogue``; covers items that this data lacks.
        largest: largest item id.
        folder: artifact folder.
    """
    categories = np.full(largest + 1, NONE, np.int32)
    if earlier is not None:
        known = min(len(earlier), len(categories))
        categories[:known] = earlier[:known]
    categories[popularity.items] = popularity.categories
    items = np.flatnonzero(categories).astype(np.int32)
    pq.write_table(pa.table({"item": items, "cat": categories[items]}), folder / CATALOGUE)


def read_catalogue(folder: Path) -> np.ndarray | None:
    """Category by item id, int32, NONE where unknown; None without a catalogue.

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
    result = np.full(int(items.max(initial=0)) + 1, NONE, np.int32)
    result[items] = categories
    return result
