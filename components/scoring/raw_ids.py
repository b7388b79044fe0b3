"""The ids of a test split as they are in the raw data, to be looked up beside the scores."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from components.feature_spec import Channel, FeatureSpec
from components.feature_spec.spec import TEST
from components.feature_spec.values import read_values

_AT_ONCE = 65_536  # samples


def raw_ids(spec: FeatureSpec) -> dict[str, pa.Array]:
    """User and candidate of each sample: feature to the values of its ids, ``[n]`` texts, in the order of the records.

    Features without a vocabulary are left out. A value that the vocabulary lacks is null.

    Raises:
        KfrecError: a record or a vocabulary is damaged.
    """
    from components.records import Records  # with Numba, as in score_split

    held = spec.sources[TEST].features
    features = [name for channel in (Channel.USER, Channel.TARGET) for name in spec.channels.get(channel, ())]
    vocabularies = {name: vocabulary for name in features if name in held and (vocabulary := spec.vocabulary_of(name))}
    if not vocabularies:
        return {}
    batches = list(Records(spec, TEST, list(vocabularies)).batches(_AT_ONCE))
    found = {}
    for name, vocabulary in vocabularies.items():
        known, values = read_values(spec, vocabulary)
        ids, rows = np.unique(np.concatenate([batch[name] for batch in batches]), return_inverse=True)
        order = np.argsort(known)
        places = np.minimum(np.searchsorted(known, ids, sorter=order), len(known) - 1)
        is_known = known[order[places]] == ids if len(known) else np.zeros(len(ids), bool)
        texts = values.take(pa.array(order[places], mask=~is_known)) if len(known) else pa.nulls(len(ids), pa.string())
        found[name] = texts.take(pa.array(rows))
    return found
