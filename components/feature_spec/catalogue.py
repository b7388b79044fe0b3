"""The category of each item: vocabulary/catalogue.parquet, which preprocessing of users' histories writes.

It encodes raw rows at serving time, and tells models the categories of items that no sample at hand has.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.artifacts.folder import require_listed
from components.errors import KfrecError
from components.feature_spec.spec import FeatureSpec
from components.feature_spec.vocabulary import VOCABULARY, Vocabulary

CATALOGUE = f"{VOCABULARY}/catalogue.parquet"
# Category of items without reviews, which only an earlier vocabulary has.
NONE = 0


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


def categories_by_item(spec: FeatureSpec, items: Vocabulary, categories: Vocabulary) -> np.ndarray | None:
    """The category of every item as models read it, int32 ``[cardinality of items + 1]``; that of the padding is 0, and
    items of unknown category have the unknown one. None without a catalogue.

    Raises:
        KfrecError: the file is damaged.
    """
    catalogue = read_catalogue(spec.folder)
    if catalogue is None:
        return None
    rows = (spec.features[items.features[0]].cardinality or 0) + 1
    found = np.full(max(rows, items.unknown + 1), categories.unknown, np.int32)
    known = np.flatnonzero(catalogue[: len(found)] != NONE)
    found[known] = catalogue[known]
    # Unknown items share an id; the catalogue has the category of only one of them.
    found[items.unknown] = categories.unknown
    found[0] = 0
    return found
