"""The category of each item: vocabulary/catalogue.parquet, which preprocessing of users' histories writes.

It encodes raw rows at serving time, and tells models the categories of items that no sample at hand has. Beside it,
vocabulary/titles.parquet has the titles of items for people, if there are any.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.artifacts.folder import require_listed
from components.errors import KfrecError
from components.feature_spec.spec import FeatureSpec
from components.feature_spec.values import read_bounded
from components.feature_spec.vocabulary import VOCABULARY, Vocabulary

CATALOGUE, TITLES = f"{VOCABULARY}/catalogue.parquet", f"{VOCABULARY}/titles.parquet"
# Category of items without reviews, which only an earlier vocabulary has.
NONE = 0
# Characters of a title; the rest is cut off.
_LONGEST_TITLE = 80


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


def shown_title(value: Any) -> str | None:
    """A title of the raw data as it is kept, in one line; None for what is no text."""
    title = " ".join(value.split())[:_LONGEST_TITLE] if isinstance(value, str) else ""
    return title.encode(errors="replace").decode() or None


def read_titles(folder: Path) -> pa.Table:
    """Columns item, as in the raw data, and title, large strings; without rows if there is no file.

    Raises:
        KfrecError: the file is damaged.
    """
    require_listed(folder, [TITLES])
    try:
        return read_bounded(folder / TITLES, ["item", "title"])
    except FileNotFoundError:
        return pa.table({name: pa.array([], pa.large_string()) for name in ("item", "title")})
    except (pa.ArrowException, KeyError) as error:
        raise KfrecError(f"{folder / TITLES}: no titles of items ({str(error).splitlines()[0]}); restore it") from None
