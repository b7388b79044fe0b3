"""How far the columns of served rows have moved from the data that a model was trained on."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from components.checks.profile import CATEGORY, NUMBER, Profile
from components.checks.profiler import stability_index
from components.checks.tables import Profiled, TableProfiler
from components.workflows.values import DEFAULT_MISSING, numbers, texts


def drift(columns: Mapping[str, pa.Array], profile: Profile) -> dict[str, float]:
    """The population stability index of each served column that the profile has; see ``stability_index``.

    A profile names a column as a feature: without letters that features lack.
    """
    known = {name: column for table in profile.tables.values() for name, column in table.columns.items()}
    served = {_feature(name): values for name, values in columns.items()}
    found = {}
    for name, like in known.items():
        values = served.get(_feature(name))
        if values is None or like.kind not in (CATEGORY, NUMBER) or not like.shares:
            continue
        profiler = TableProfiler([Profiled(name, like.kind, counted=like.values is not None)], (), 0)
        profiler.add(pa.table({name: _read(values, like.kind)}))
        shares = profiler.shares(name, like)
        if shares is not None and len(shares) == len(like.shares):
            found[name] = stability_index(shares, like.shares)
    return found


def _read(values: pa.Array, kind: str) -> pa.Array:
    """The values as preprocessing reads them: numbers, or ids as text; of lists, their elements."""
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        values = values.flatten()
    if kind == CATEGORY:
        return texts(values, DEFAULT_MISSING)
    found, _ = numbers(values, DEFAULT_MISSING)
    return pa.array(found, mask=np.isnan(found))


def _feature(name: str) -> str:
    return re.sub(r"\W", "_", name, flags=re.ASCII)
