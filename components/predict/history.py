"""A user's item history, from the records that a model was registered with."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from components.artifacts.remote import local_copy
from components.errors import KfrecError
from components.feature_spec import Channel, FeatureSpec, load_feature_spec
from components.feature_spec.lookup import IdLookup
from components.feature_spec.spec import FILENAME
from components.progress import progress
from components.records import Records
from components.scoring import open_test_split
from components.storage import is_uri

_ROWS = 16_384
_REMEDY = "give the items with --history, or other records with --data"


def history_of(user: str, data: str) -> list[str | None]:
    """A user's item ids, oldest first, the held-out item last.

    Args:
        user: the user's id.
        data: folder or URI of records, whose test split has the newest history of each user.

    Returns:
        Ids, None for an item outside the data's vocabulary.

    Raises:
        KfrecError: there are no such records, or the user is not among them.
    """
    if not data:
        raise KfrecError(f"user {user}: the data that the model was registered with are not known; {_REMEDY}")
    with tempfile.TemporaryDirectory(prefix="kfrec-data-") as scratch:
        if is_uri(data):
            folder = local_copy(data, Path(scratch), FILENAME, "vocabulary", "test")
        elif Path(data).is_dir():
            folder = open_test_split(Path(data)).path
        else:
            raise KfrecError(f"{data}: the data that the model was registered with are no longer here; {_REMEDY}")
        return _found(user, load_feature_spec(folder), data)


def _found(user: str, spec: FeatureSpec, data: str) -> list[str | None]:
    uid, target, positive = (spec.channel(name)[0].name for name in (Channel.USER, Channel.TARGET, Channel.POSITIVE))
    users, items = _lookup(spec, uid, data), _lookup(spec, target, data)
    (place,) = np.flatnonzero(users.values.to_numpy(zero_copy_only=False) == user)[:1].tolist() or (None,)
    if place is None:
        raise KfrecError(f"user {user}: not among the {len(users.ids):,} users in {data}; {_REMEDY}")
    label = spec.channel(Channel.LABEL)[0].name
    newest = np.zeros(0, np.int64)
    records = Records(spec, "test", features=[uid, target, positive, label])
    with progress("looking for the user", records.rows, "samples") as bar:
        for batch in records.batches(_ROWS):
            for row in np.flatnonzero(batch[uid] == users.ids[place]):
                before = batch[positive][row]
                seen = [before[before > 0], batch[target][row : row + 1][batch[label][row : row + 1] > 0]]
                newest = max(newest, np.concatenate(seen), key=len)
            bar.advance(len(batch[uid]))
    if not len(newest):
        raise KfrecError(f"user {user}: has no history in the test split of {data}; {_REMEDY}")
    return items.decode(newest)


def _lookup(spec: FeatureSpec, feature: str, data: str) -> IdLookup:
    vocabulary = spec.vocabulary_of(feature)
    if vocabulary is None:
        raise KfrecError(f"{data}: no vocabulary of {feature}, so nobody can be found by name; {_REMEDY}")
    return IdLookup(spec, vocabulary)
