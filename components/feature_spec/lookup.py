"""Values to ids and back, by the vocabulary files of a feature specification, and lists of ids."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from components.errors import KfrecError
from components.feature_spec.spec import FeatureSpec
from components.feature_spec.values import read_values
from components.feature_spec.vocabulary import Vocabulary


class IdLookup:
    """The ids of values, and the values of ids; the hash table is built once.

    Attributes:
        values: values of the vocabulary, in the order of ``ids``.
        ids: int32.
    """

    def __init__(self, spec: FeatureSpec, vocabulary: Vocabulary) -> None:
        ids, values = read_values(spec, vocabulary)
        self.ids, self.values, self.unknown = ids.astype(np.int32), values, vocabulary.unknown
        self._positions = {value: position for position, value in enumerate(values.to_pylist())}
        if len(self._positions) < len(values):
            raise KfrecError(f"{spec.folder / vocabulary.file}: a value is listed twice; restore the file")

    def encode(self, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Ids of texts.

        Args:
            values: text; null is unknown.

        Returns:
            ids: int32.
            known: bool, whether the vocabulary has the value.
        """
        # Values repeat, such as the items of popular histories: each is looked up once.
        distinct = values.dictionary_encode("encode")
        found = [self._positions.get(value, -1) for value in distinct.dictionary.to_pylist()]
        positions = np.array(found, np.int64)[distinct.indices.to_numpy(zero_copy_only=False)]
        known = positions >= 0
        if not len(self.ids):
            return np.full(len(positions), self.unknown, np.int32), known
        return np.where(known, self.ids[positions], np.int32(self.unknown)), known

    def decode(self, ids: np.ndarray) -> list[str | None]:
        """The values of ids, None where the vocabulary has no such id."""
        if not len(self.ids):
            return [None] * len(ids)
        order = np.argsort(self.ids, kind="stable")
        positions = order[np.minimum(np.searchsorted(self.ids, ids, sorter=order), len(order) - 1)]
        values: list[str | None] = self.values.take(pa.array(positions, mask=self.ids[positions] != ids)).to_pylist()
        return values


def left_padded(values: np.ndarray, sizes: np.ndarray, length: int) -> np.ndarray:
    """The lists of these sizes in ``values`` as records hold them, int32 ``[lists, length]``: the last values of longer
    lists, 0 before shorter ones."""
    ends = np.cumsum(sizes)
    positions = ends[:, None] - np.arange(length, 0, -1)
    used = positions >= (ends - sizes)[:, None]
    padded = np.zeros(used.shape, np.int32)
    padded[used] = values[positions[used]]
    return padded
