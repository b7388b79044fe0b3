"""Values to ids and back, by the vocabulary files of a feature specification."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.artifacts.folder import require_listed
from components.errors import KfrecError
from components.feature_spec.spec import FeatureSpec
from components.feature_spec.vocabulary import Vocabulary


def read_values(spec: FeatureSpec, vocabulary: Vocabulary) -> tuple[np.ndarray, pa.Array]:
    """The ids of a vocabulary, and their values.

    Raises:
        KfrecError: the file is missing or no vocabulary.
    """
    require_listed(spec.folder, [vocabulary.file])
    path = spec.folder / vocabulary.file
    try:
        table = pq.read_table(path, columns=["id", "value"])
    except FileNotFoundError:
        raise KfrecError(f"{path}: missing, though feature_spec.yaml names it; ids cannot be matched") from None
    except (pa.ArrowException, KeyError) as error:
        raise KfrecError(f"{path}: not a vocabulary with columns id and value ({str(error).splitlines()[0]})") from None
    return table["id"].to_numpy(), table["value"].cast(pa.large_string()).combine_chunks()


class IdLookup:
    """The ids of values, and the values of ids; the hash table is built once.

    Args:
        spec: the feature specification.
        vocabulary: one of its vocabularies.

    Attributes:
        values: of the vocabulary, in the order of ``ids``.
        ids: int32.
        unknown: the id of all other values.
    """

    def __init__(self, spec: FeatureSpec, vocabulary: Vocabulary) -> None:
        import pandas as pd

        ids, values = read_values(spec, vocabulary)
        self.ids, self.values, self.unknown = ids.astype(np.int32), values, vocabulary.unknown
        self._index = pd.Index(values.to_numpy(zero_copy_only=False), dtype=object)
        if not self._index.is_unique:
            raise KfrecError(f"{spec.folder / vocabulary.file}: a value is listed twice; restore the file")

    def encode(self, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Ids of texts.

        Args:
            values: text; null is unknown.

        Returns:
            ids: int32.
            known: bool, whether the vocabulary has the value.
        """
        places = self._index.get_indexer(values.to_numpy(zero_copy_only=False))
        known = places >= 0
        if not len(self.ids):
            return np.full(len(places), self.unknown, np.int32), known
        return np.where(known, self.ids[places], np.int32(self.unknown)), known

    def decode(self, ids: np.ndarray) -> list[str | None]:
        """The values of ids, None where the vocabulary has no such id."""
        places = {int(given): place for place, given in enumerate(self.ids)}
        return [self.values[places[given]].as_py() if given in places else None for given in ids.tolist()]
