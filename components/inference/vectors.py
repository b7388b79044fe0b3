"""The vectors of users and items of a retrieval model, for an index of one's own.

The dot product of a user's and an item's vector orders items as the model's lists do.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa

from components.errors import KfrecError
from components.inference.history import PeopleInContext
from components.inference.recommend import MODEL, VERSION, replaced
from components.progress import progress
from components.scoring.catalogue import Catalogue
from components.scoring.model import USER_VECTORS, as_column

USERS, ITEMS = "user_vectors.parquet", "item_vectors.parquet"
COLUMNS = ("id", "vector", MODEL, VERSION)
_AT_ONCE = 4096


def write_vectors(
    catalogue: Catalogue, people: PeopleInContext, folder: Path, model: str, version: str
) -> tuple[int, int]:
    """Writes USERS and ITEMS with the columns of COLUMNS; a vector is a list of float32 of fixed size.

    Args:
        catalogue: its candidates are the items.
        folder: made if it is not there; each file appears complete.
        model, version: what made the vectors.

    Returns:
        The numbers of users and of items.

    Raises:
        KfrecError: the model has no vectors, or a file may not be replaced.
    """
    if catalogue.vectors is None:
        raise KfrecError(
            "--vectors: the model has no user_vectors and target_vectors; name a retrieval model that has them, such "
            "as one of sasrec"
        )

    def rows(ids: pa.Array, vectors: np.ndarray) -> pa.RecordBatch:
        noted = (pa.array([value] * len(ids), pa.string()) for value in (model, version))
        return pa.RecordBatch.from_arrays([ids.cast(pa.string()), as_column(vectors), *noted], names=COLUMNS)

    folder.mkdir(parents=True, exist_ok=True)
    users = 0
    with ExitStack() as opened:
        of_items, of_users = (opened.enter_context(replaced(folder / name, [], COLUMNS)) for name in (ITEMS, USERS))
        for first in range(0, len(catalogue.names), _AT_ONCE):
            of_items.write(rows(catalogue.names.slice(first, _AT_ONCE), catalogue.vectors[first : first + _AT_ONCE]))
        bar = opened.enter_context(progress("computing vectors", None, "users"))
        for names, histories, context in people:
            for first in range(0, len(names), _AT_ONCE):
                ids, own = (each.slice(first, _AT_ONCE) for each in (names, histories))
                known = {name: values.slice(first, _AT_ONCE) for name, values in context.items()}
                inputs, _ = catalogue.encoded(ids, own, context=known)
                of_users.write(rows(ids, catalogue.raw.model.vectors_of(USER_VECTORS, inputs)))
                users += len(ids)
                bar.advance(len(ids))
    return users, len(catalogue.names)
