"""What the users of a test split chose last, and where models rank it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.errors import KfrecError
from components.feature_spec import Channel, FeatureSpec
from components.feature_spec.lookup import IdLookup
from components.feature_spec.values import read_values
from components.progress import progress
from components.random_draws import hashes
from components.scoring.catalogue import Catalogue
from components.scoring.newest import NewestSamples, choice_label, events_of, is_chosen
from components.scoring.split import READ_AHEAD
from components.tasks.kept import oldest_two

_ROWS = 16_384
_NOWHERE = -1


class Choices(NamedTuple):
    """The newest choices of some test users, by name, so that models of other data can be asked, too.

    Attributes:
        users: ids, string ``[n]``; null for one outside of the vocabulary.
        histories: lists of items before the choice, oldest first, ``[n]``.
        chosen: items, string ``[n]``; null for one outside of the vocabulary.
    """

    users: pa.Array
    histories: pa.Array
    chosen: pa.Array


def choices_in(spec: FeatureSpec, users: int) -> Choices:
    """The newest choices in the test split; see ``newest_choices``.

    Raises:
        KfrecError: the data lack users, histories or vocabularies, or no test user chose an item.
    """
    newest = newest_choices(spec, [], users)
    if not len(newest):
        raise KfrecError(f"{spec.folder}: no test user chose an item; give a test split with items that users chose")
    item, user = (_lookup(spec, channel) for channel in (Channel.TARGET, Channel.USER))
    events = newest.events
    names = iter(item.decode(events[events > 0]))
    lists = [[next(names) for _ in range(count)] for count in np.count_nonzero(events, 1).tolist()]
    return Choices(
        pa.array(user.decode(newest.users), pa.string()),
        pa.array([each[:-1] for each in lists], pa.list_(pa.string())),
        pa.array([each[-1] for each in lists], pa.string()),
    )


def ranks_of(catalogue: Catalogue, choices: Choices, *, ranked: Callable[[], None] = lambda: None) -> np.ndarray:
    """The rank of each user's choice among the candidates, without those of the history unless the catalogue keeps
    them.

    Args:
        choices: of ``choices_in``.

    Returns:
        float64 ``[n]``, from 1; among equal scores the mean of their ranks; inf for what is no candidate.
    """
    names = catalogue.names.cast(pa.string())
    seen, chosen = (
        pc.fill_null(pc.index_in(values, value_set=names, skip_nulls=True), _NOWHERE).to_numpy()
        for values in (choices.histories.flatten(), choices.chosen)
    )
    ends, cold = choices.histories.offsets.to_numpy(), catalogue.cold(choices.histories)
    inputs, _ = catalogue.encoded(choices.users, choices.histories)
    ranks = np.full(len(chosen), np.inf)
    for user, scores in enumerate(catalogue.scores(inputs, len(chosen))):
        target = int(chosen[user])
        before = seen[ends[user] : ends[user + 1]]
        before = before[before != _NOWHERE]
        if cold[user] and catalogue.popularity is not None:
            scores = catalogue.popularity.scores(before)
        if target != _NOWHERE and scores[target] > -np.inf:
            excluded = before[:0] if catalogue.keeps_seen else before
            ranks[user] = catalogue.rank(scores, excluded, target)
        ranked()
    return ranks


def _lookup(spec: FeatureSpec, channel: str) -> IdLookup:
    feature = next(iter(spec.channels.get(channel, ())), "")
    vocabulary = spec.vocabulary_of(feature) if feature else None
    if vocabulary is None:
        raise KfrecError(
            f"{spec.folder}: no vocabulary of the channel {channel}; prepare the data from raw files again"
        )
    return IdLookup(spec, vocabulary)


def newest_choices(spec: FeatureSpec, inputs: Sequence[str], users: int) -> NewestSamples:
    """The newest positive test sample of a uniform sample of users: those whose ids have the smallest hashes."""
    from components.records import Records, prefetched  # lazy: imports Numba

    target, positive = (spec.channel(name)[0] for name in (Channel.TARGET, Channel.POSITIVE))
    label = choice_label(spec)
    user = next(iter(spec.channels.get(Channel.USER, ())), "")
    known = _known_users(spec, user)
    wanted = dict.fromkeys([*filter(None, [label, user]), target.name, positive.name, *inputs])
    records = Records(spec, "test", features=list(wanted))
    sampled, largest, first = NewestSamples(), np.uint64(2**64 - 1), 0
    with progress("reading the newest test samples", records.rows, "samples") as bar:
        for batch in prefetched(records.batches(_ROWS), READ_AHEAD):
            rows = len(batch[target.name])
            chosen = np.flatnonzero(is_chosen(label, batch, rows))
            events = events_of(batch[positive.name][chosen], batch[target.name][chosen], np.ones(len(chosen), bool))
            if user:
                ids = batch[user][chosen]
                keys = np.where(np.isin(ids, known), ids, -oldest_two(events))
            else:
                keys = first + chosen
            near = hashes(keys) <= largest
            sampled.add(keys[near], events[near], {name: batch[name][chosen[near]] for name in inputs})
            if len(sampled) > users:
                held = sampled.users
                order = np.argsort(hashes(held), kind="stable")[:users]
                largest = hashes(held)[order[-1]]
                sampled.keep(held[np.sort(order)])
            first += rows
            bar.advance(rows)
    return sampled


def _known_users(spec: FeatureSpec, user: str) -> np.ndarray:
    """The ids that stand for one user each."""
    vocabulary = spec.vocabulary_of(user) if user else None
    if vocabulary is not None:
        return read_values(spec, vocabulary)[0]
    return np.arange(1, (spec.features[user].cardinality or 0) + 1) if user else np.zeros(0, np.int64)
