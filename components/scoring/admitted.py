"""Which test samples have an id that got its row in the last night, see ``components.feature_spec.living``.

Ids in a list, such as a history, do not count: most lists have a new one.
"""

from __future__ import annotations

import numpy as np

from components.feature_spec import FeatureSpec
from components.feature_spec.living import newly_admitted
from components.feature_spec.spec import TEST
from components.tasks.groups import ADMITTED

_AT_ONCE = 65_536  # samples


def admitted_rows(spec: FeatureSpec) -> dict[str, np.ndarray]:
    """The kept column of the test split, int8 ``[n]`` in the order of the records; empty unless a vocabulary grew.

    Raises:
        KfrecError: a record or a vocabulary's counters are damaged.
    """
    from components.records import Records  # lazy: imports Numba

    held = [name for name in spec.sources[TEST].features if spec.features[name].length is None]
    new = {name: ids for name, ids in newly_admitted(spec).items() if name in held}
    if not new:
        return {}

    def has_new(batch: dict[str, np.ndarray]) -> np.ndarray:
        return np.logical_or.reduce([np.isin(batch[name], ids) for name, ids in new.items()])

    rows = [has_new(batch) for batch in Records(spec, TEST, features=list(new)).batches(_AT_ONCE)]
    return {ADMITTED: np.concatenate(rows).astype(np.int8)}
