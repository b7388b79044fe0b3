"""The values of a vocabulary's ids, from its file."""

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


def names_of(spec: FeatureSpec, feature: str, ids: np.ndarray) -> dict[int, str]:
    """The values of some ids of a feature; empty where it has no vocabulary. Ids that it lacks are left out.

    Raises:
        KfrecError: the vocabulary's file is missing or damaged.
    """
    vocabulary = spec.vocabulary_of(feature)
    if vocabulary is None:
        return {}
    known, values = read_values(spec, vocabulary)
    places = np.flatnonzero(np.isin(known, ids))
    return dict(zip(known[places].tolist(), values.take(pa.array(places)).to_pylist(), strict=True))
