"""Users' item histories, from the records that a model was registered with."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from components.artifacts import open_input
from components.artifacts.remote import local_copy
from components.datasets.event_lists import lists_of, with_columns
from components.errors import KfrecError
from components.feature_spec import Channel, FeatureSpec, load_feature_spec
from components.feature_spec.event_columns import MISSING, EventColumn, columns_in
from components.feature_spec.lookup import IdLookup
from components.feature_spec.spec import FILENAME
from components.feature_spec.vocabulary import VOCABULARY
from components.progress import progress
from components.records import Records, prefetched
from components.scoring.newest import NewestSamples, choice_label, events_of, is_chosen
from components.scoring.split import READ_AHEAD
from components.storage import is_uri

_ROWS = 16_384
REMEDY = "give the items with --history, or other events with --events"
# The split with the newest events first: a user's events in one split are all older than those in the split before.
SPLITS = ("test", "validation", "train")

# Batches of users' ids, string ``[n]``, and of their items, oldest first, list of string ``[n]``, or of their events;
# see ``components.datasets.event_lists``.
People = Iterator[tuple[pa.Array, pa.Array]]
# The same, and what is known of the event that each list is for: the columns of the role ``raw_rows.CONTEXT``, by name,
# ``[n]`` each.
PeopleInContext = Iterator[tuple[pa.Array, pa.Array, Mapping[str, pa.Array]]]


def histories_of(users: Sequence[str] | None, data: str, remedy: str = REMEDY) -> People:
    """Users and all their events in the records, oldest first.

    Records hold the newest events only, as many as a history is long, and the target of the newest positive sample.

    Args:
        users: ids; None is every user of the records.
        data: folder or URI of records.
        remedy: ends the message about a user or data that are not there.

    Returns:
        Ids in the order of ``users``, or of the vocabulary; and their item ids, None for an item outside the data's
        vocabulary. A user of ``users`` who is not among them has no list (null). With columns of events, a number is
        the lower bound of its interval, and what is not known of a target is missing.

    Raises:
        KfrecError: there are no such records, or none of the users is among them.
    """
    if not data:
        about = f"user {users[0]}: " if users else ""
        raise KfrecError(f"{about}the data that the model was registered with are not known; {remedy}")
    if not is_uri(data) and not Path(data).is_dir():
        raise KfrecError(f"{data}: the data that the model was registered with are no longer here; {remedy}")
    with tempfile.TemporaryDirectory(prefix="kfrec-data-") as scratch:
        folder_of = partial(_folder_of, data, Path(scratch))
        spec = load_feature_spec(folder_of(SPLITS[0]))
        uid, target = (spec.channel(name)[0].name for name in (Channel.USER, Channel.TARGET))
        names, items = _lookup(spec, uid, data, remedy), _lookup(spec, target, data, remedy)
        wanted = names.ids if users is None else _ids_of(users, names, data, remedy)
        newest = _newest(spec, folder_of, wanted)
        beside = {column: _lookup(spec, column.sequence, data, remedy) for column in columns_in(spec)}
    place_of = {user: row for row, user in enumerate(newest.users.tolist())}
    if users is None:
        wanted = wanted[np.isin(wanted, newest.users)]
        ids = pa.array([user or "" for user in names.decode(wanted)], pa.string())
    elif place_of:
        ids = pa.array(users, pa.string())
    else:
        raise KfrecError(f"user {some(users)}: no history in {data}; {remedy}")
    return _decoded(ids, [place_of.get(user) for user in wanted.tolist()], newest, items, beside)


def without_context(people: People) -> PeopleInContext:
    """People without values of the context's columns."""
    for users, histories in people:
        yield users, histories, {}


def _decoded(
    ids: pa.Array,
    place_of: Sequence[int | None],
    newest: NewestSamples,
    items: IdLookup,
    beside: Mapping[EventColumn, IdLookup],
) -> People:
    """Users and their lists, from the places of their newest samples; a null list for None."""
    for first in range(0, len(ids), _ROWS):
        chosen = place_of[first : first + _ROWS]
        places = [place for place in chosen if place is not None]
        events = newest.events[places]
        values = {
            column.in_history: pa.array(lookup.decode(newest.columns[column.sequence][places][events > 0]), pa.string())
            for column, lookup in beside.items()
        }
        decoded = pa.array(items.decode(events[events > 0]), pa.string())
        histories = lists_of(np.count_nonzero(events, 1), with_columns(decoded, values))
        found = iter(range(len(places)))
        rows = pa.array([None if place is None else next(found) for place in chosen], pa.int64())
        yield ids.slice(first, _ROWS), histories.take(rows)


def _newest(spec: FeatureSpec, folder_of: Callable[[str], Path], wanted: np.ndarray) -> NewestSamples:
    """The newest sample of each of these users; a split is read only for users that the splits before lack."""
    uid, target, positive = (spec.channel(name)[0].name for name in (Channel.USER, Channel.TARGET, Channel.POSITIVE))
    label, columns = choice_label(spec), columns_in(spec)
    beside = [name for each in columns for name in (each.sequence, *([each.field] if each.is_known else []))]
    newest, left = NewestSamples(), wanted
    for split in SPLITS:
        if split not in spec.sources or not len(left):
            continue
        there = load_feature_spec(folder_of(split))
        records = Records(there, split, features=[uid, target, positive, *filter(None, [label]), *beside])
        with progress(f"reading histories from {split}", records.rows, "samples") as bar:
            for batch in prefetched(records.batches(_ROWS), READ_AHEAD):
                rows = np.flatnonzero(np.isin(batch[uid], left))
                chosen = is_chosen(label, batch, len(batch[uid]))[rows]
                events = events_of(batch[positive][rows], batch[target][rows], chosen)
                unknown = np.full(len(rows), MISSING, events.dtype)
                values = {
                    each.sequence: events_of(
                        batch[each.sequence][rows], batch[each.field][rows] if each.is_known else unknown, chosen
                    )
                    for each in columns
                }
                newest.add(batch[uid][rows], events, values)
                bar.advance(len(batch[uid]))
        left = np.setdiff1d(left, newest.users)
    return newest


def _folder_of(data: str, scratch: Path, split: str) -> Path:
    """The records' folder with a split; of remote records only the splits that are read are fetched."""
    names = (FILENAME, VOCABULARY, split)
    if is_uri(data):
        return local_copy(data, scratch / split, *names)
    return open_input(Path(data), steps=("tfrecord",), reads=names).path


def _ids_of(users: Sequence[str], names: IdLookup, data: str, remedy: str) -> np.ndarray:
    """The users' ids, -1 for one who has none."""
    ids, known = names.encode(pa.array(users, pa.large_string()))
    if not known.any():
        raise KfrecError(f"user {some(users)}: not among the {len(names.ids):,} users in {data}; {remedy}")
    return np.where(known, ids, -1)


def some(users: Sequence[str]) -> str:
    """The first of these users, and the number of others."""
    return users[0] + (f" and {len(users) - 1:,} more" if len(users) > 1 else "")


def _lookup(spec: FeatureSpec, feature: str, data: str, remedy: str) -> IdLookup:
    vocabulary = spec.vocabulary_of(feature)
    if vocabulary is None:
        raise KfrecError(f"{data}: no vocabulary of {feature}, so users cannot be found by name; {remedy}")
    return IdLookup(spec, vocabulary)
