"""Reviews on disk, sorted by user, and one partition's users with enough of them, in chronological order.

The key of the sorted runs is a 64-bit hash of the user, so the partitioning depends only on the users' names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.datasets.event_lists import with_columns
from components.datasets.histories.event_ids import type_of
from components.datasets.histories.filters import (
    FIRST_DAY,
    FIRST_EVENT,
    OTHER_KIND,
    OTHER_TARGET,
    PASSES,
    SEEN_ITEM,
    SHORT_USER,
    Filtered,
)
from components.datasets.histories.kinds import NO_KIND, Kinds
from components.errors import KfrecError
from components.feature_spec.event_columns import EventColumn
from components.random_draws import mixed
from components.workflows.key_runs import KeyRange, KeyRuns

SECOND = 10**9
DAY = 86_400 * SECOND
# A profiled time's seconds per tick.
TICK = 1e-9
# A user, an item and a time in nanoseconds since 1970, by the names of the published reviews.
REVIEW = pa.schema([("reviewerID", pa.string()), ("asin", pa.string()), ("unixReviewTime", pa.int64())])
# A review, the code of its kind, and how much it counts.
EVENT = pa.schema([*REVIEW, ("kind", pa.int8()), ("weight", pa.float32())])
# The title is for people, as of ``components.feature_spec.catalogue.shown_title``. Both may be null.
ITEM = pa.schema([("asin", pa.string()), ("category", pa.dictionary(pa.int32(), pa.string())), ("title", pa.string())])
NO_CATEGORY = "no_category"
# A file of histories; columns of events that models read follow.
HISTORY = pa.schema(
    [
        ("user_key", pa.int64()),
        ("uid", pa.string()),
        ("item", pa.string()),
        ("cat", pa.string()),
        ("time", pa.int64()),
        ("flags", pa.int8()),
        ("weight", pa.float32()),
        ("kind", pa.int8()),
    ]
)
# Flags of a review: new to the user, as no history before it has the item; a target by its kind; in later histories.
NEW, TARGET, CONTEXT = 1, 2, 4
# From a user's last target but one on, and from the last one on, where these do not train.
VALIDATES, TESTS = 8, 16
HELD_OUT = VALIDATES | TESTS


def told_column(name: str) -> str:
    """Where a table of items has the column of this name that models read: it may be named as those of ``ITEM``."""
    return f"told {name}"


def item_schema(columns: Sequence[str]) -> pa.Schema:
    """The schema of items with columns of text that models read."""
    return pa.schema([*ITEM, *((told_column(name), pa.string()) for name in columns)])


def write_items(tables: Iterable[pa.Table], output: Path) -> None:
    """Writes all items to one Arrow file. An item listed twice keeps both rows: readers take the first."""
    items = pa.concat_tables([ITEM.empty_table(), *tables], promote_options="default")
    items = items.unify_dictionaries().combine_chunks()
    with pa.ipc.new_file(output, items.schema) as writer:
        writer.write_table(items)


def read_items(items: Path) -> pa.Table:
    """The items that ``write_items`` wrote, not in memory."""
    return pa.ipc.open_file(pa.memory_map(str(items))).read_all()


def in_nanoseconds(times: np.ndarray, per_second: int, column: str) -> np.ndarray:
    """Whole numbers of a unit as nanoseconds, int64 ``[n]``.

    Args:
        times: int64 ``[n]``.
        per_second: how many of the unit a second has.
        column: name, for messages.

    Raises:
        KfrecError: a time before 1678 or after 2261.
    """
    factor = SECOND // per_second
    far = np.abs(times.astype(np.float64)) * factor > np.iinfo(np.int64).max
    if far.any():
        raise KfrecError(f"column {column} holds {times[far][0]}, which is no time between 1678 and 2261; correct it")
    return times * factor


def event_schema(columns: Sequence[EventColumn] = ()) -> pa.Schema:
    """The schema of events with columns that models read."""
    return pa.schema([*EVENT, *((column.field, type_of(column)) for column in columns)])


def user_runs(folder: Path, columns: Sequence[EventColumn] = ()) -> KeyRuns:
    """Runs of ``event_schema`` after a column user_key."""
    return KeyRuns(folder, "user_key", event_schema(columns), lambda reviews: hashes_of(reviews["reviewerID"]))


def without_kinds(reviews: pa.Table) -> pa.Table:
    """Reviews of the schema ``REVIEW`` in that of ``EVENT``: of no kind and of weight 1."""
    kinds, weights = np.full(len(reviews), NO_KIND, np.int8), np.ones(len(reviews), np.float32)
    return pa.table([*reviews.select(REVIEW.names).columns, pa.array(kinds), pa.array(weights)], schema=EVENT)


def user_histories(
    users: KeyRange, kinds: Kinds, ties_by_item: bool, columns: Sequence[EventColumn] = (), since: int | None = None
) -> tuple[pa.Array, pa.Array]:
    """All users of a partition, and their events of the kinds that are in histories.

    Args:
        ties_by_item: as for ``write_histories``.
        columns: that models read.
        since: leave out events before this moment, in nanoseconds since 1970, and users who have no other; None is
            none.

    Returns:
        The users, string ``[n]``, and the items of each, oldest first, list of string ``[n]``; with columns, their
        events, see ``components.datasets.event_lists``.

    Raises:
        KfrecError: two users share a key.
    """
    reviews = users.read()
    if since is not None:
        reviews = reviews.filter(pc.greater_equal(reviews["unixReviewTime"], since))
    reviews = reviews.combine_chunks()
    reviews = reviews.take(pa.array(_by_user_and_time(reviews, ties_by_item))).combine_chunks()
    keys = reviews["user_key"].to_numpy()
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]]) if len(keys) else np.zeros(0, np.int64)
    if len(starts) != pc.count_distinct(reviews["reviewerID"]).as_py():
        raise _one_key(reviews)
    context = kinds.are_context(reviews["kind"].to_numpy())
    offsets = np.append(0, np.cumsum(context))[np.append(starts, len(keys))]
    kept = pa.array(context)
    items = reviews["asin"].combine_chunks().filter(kept)
    further = {column.in_history: reviews[column.field].combine_chunks().filter(kept) for column in columns}
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), with_columns(items, further))
    return reviews["reviewerID"].combine_chunks().take(pa.array(starts)), lists


def hashes_of(names: pa.ChunkedArray) -> np.ndarray:
    """A 64-bit hash of each name (pandas' SipHash): int64, the same on every machine.

    Ten million users collide with probability 3e-6; ``histories`` rejects collisions.
    """
    encoded = names.combine_chunks().dictionary_encode()
    distinct = encoded.dictionary.to_numpy(zero_copy_only=False)
    return pd.util.hash_array(distinct, categorize=False).view(np.int64)[encoded.indices.to_numpy()]


@dataclass(frozen=True)
class Histories:
    """The result for a partition.

    Attributes:
        path: a parquet file of the schema ``HISTORY``, sorted by user and time; None if no user is left.
        with_category: of these, reviews of items with a category.
        longest: reviews of the most active user, kept or not.
        filtered: what the filters left out.
        tied: of the kept reviews, those of another item at the time of the user's review before.
    """

    path: Path | None
    users: int
    reviews: int
    with_category: int
    longest: int
    filtered: Filtered
    tied: int = 0


@dataclass(frozen=True)
class Selection:
    """Which reviews are targets, and which are in histories.

    Attributes:
        shortest: users with fewer reviews are dropped.
        ties_by_item: whether reviews of one time are in the order of their asins, as published. That order tells which
            of them comes next; the other one, by a hash of user and asin, does not.
        excludes_seen: whether a target must be the user's first review of the item.
        holds_out: whether the last two targets of each user, and what follows them, do not train.
    """

    kinds: Kinds
    shortest: int
    ties_by_item: bool
    excludes_seen: bool
    holds_out: bool = False


def write_histories(users: KeyRange, items: Path, selection: Selection, output: Path) -> Histories:
    """Drops reviews of unused kinds and users with few reviews, sorts each user's by time, adds the category.

    Args:
        items: Arrow file of the schema ``sorting.ITEM``; the first row of an item wins.

    Raises:
        KfrecError: two users share a key.
    """
    reviews = users.read().combine_chunks()
    codes, kinds = reviews["kind"].to_numpy(), selection.kinds
    is_used = kinds.are_targets(codes) | kinds.are_context(codes)
    unused = reviews.filter(pa.array(~is_used))
    reviews = reviews.filter(pa.array(is_used))
    names = reviews["reviewerID"].combine_chunks().dictionary_encode().indices.to_numpy()
    lengths = np.bincount(names) if len(names) else np.zeros(0, np.int64)
    longest = int(lengths.max(initial=0))
    is_short = lengths[names] < selection.shortest
    left_out = [(unused, OTHER_KIND), (reviews.filter(pa.array(is_short)), SHORT_USER)]
    if longest < selection.shortest:
        return Histories(None, 0, 0, 0, longest, _filtered(left_out))
    reviews = reviews.filter(pa.array(~is_short))
    reviews = reviews.take(pa.array(_by_user_and_time(reviews, selection.ties_by_item))).combine_chunks()

    keys = reviews["user_key"].to_numpy()
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    if len(starts) != (lengths >= selection.shortest).sum():
        raise _one_key(reviews)
    codes = reviews["kind"].to_numpy()
    is_target, is_context = kinds.are_targets(codes), kinds.are_context(codes)
    owner = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(keys)))
    is_new = _is_new(reviews, owner, is_context)
    held_out = _held_out(starts, owner, is_target) if selection.holds_out else 0
    categories = _categories(reviews["asin"], items)
    columns = [
        reviews["user_key"],
        reviews["reviewerID"],
        reviews["asin"],
        categories.fill_null(NO_CATEGORY),
        reviews["unixReviewTime"],
        pa.array((NEW * is_new + TARGET * is_target + CONTEXT * is_context + held_out).astype(np.int8)),
        reviews["weight"],
        reviews["kind"],
    ]
    further = [field for field in reviews.schema if field.name not in ("user_key", *EVENT.names)]
    columns += [reviews[field.name] for field in further]
    pq.write_table(pa.table(columns, schema=pa.schema([*HISTORY, *further])), output)
    before = np.cumsum(is_context) - is_context
    none = before[starts][owner]
    on_first_day = before[first_of_day(owner, reviews["unixReviewTime"].to_numpy())] == none
    reasons = [~is_target, before == none, ~is_new & selection.excludes_seen, on_first_day]
    filters = np.select(reasons, [OTHER_TARGET, FIRST_EVENT, SEEN_ITEM, FIRST_DAY], PASSES)
    filtered = _filtered([*left_out, (reviews, filters)])
    with_category = len(keys) - categories.null_count
    return Histories(output, len(starts), len(keys), with_category, longest, filtered, _ties(reviews))


def first_of_day(owner: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The place of the user's first event of each event's day (UTC), int64 ``[events]``.

    Args:
        owner: of each event, sorted by user and time.
        times: nanoseconds since 1970.
    """
    day = times // DAY
    begins = np.flatnonzero(np.r_[True, (owner[1:] != owner[:-1]) | (day[1:] != day[:-1])][: len(owner)])
    return np.repeat(begins, np.diff(begins, append=len(owner)))


def _filtered(parts: Sequence[tuple[pa.Table, int | np.ndarray]]) -> Filtered:
    """What the filters leave out.

    Args:
        parts: reviews, and the filter of all or each of them.
    """
    reviews = pa.concat_tables([table for table, _ in parts])
    filters = np.concatenate([np.broadcast_to(filters, len(table)) for table, filters in parts])
    return Filtered(reviews["user_key"].to_numpy(), hashes_of(reviews["asin"]), filters)


def _held_out(starts: np.ndarray, owner: np.ndarray, is_target: np.ndarray) -> np.ndarray:
    """VALIDATES, TESTS or 0 of each event, int64 ``[events]``; events sorted by user and time.

    Args:
        starts: the first event of each user.
        owner: of each event, a place in ``starts``.
    """
    until = np.cumsum(is_target)
    had_target = until > (until - is_target)[starts][owner]
    later = until[np.append(starts[1:], len(owner)) - 1][owner] - until
    return np.select([had_target & (later == 0), had_target & (later == 1)], [TESTS, VALIDATES], 0)


def vocabulary_rows(before: int | None) -> pc.Expression:
    """The rows of a file of the schema ``HISTORY`` that vocabularies are learned from: all but what tests.

    Args:
        before: only reviews before this moment, in nanoseconds since 1970; None takes all.
    """
    rows = pc.bit_wise_and(pc.field("flags"), pa.scalar(TESTS, pa.int8())) == 0
    return rows if before is None else rows & (pc.field("time") < before)


def _ties(reviews: pa.Table) -> int:
    """Reviews of another item than the user's review before, at the same time; reviews sorted by user and time."""
    keys, times = (reviews[name].to_numpy() for name in ("user_key", "unixReviewTime"))
    items = reviews["asin"].combine_chunks()
    is_other = pc.not_equal(items.slice(1), items.slice(0, max(len(items) - 1, 0))).to_numpy(zero_copy_only=False)
    return int(np.count_nonzero((keys[1:] == keys[:-1]) & (times[1:] == times[:-1]) & is_other))


def _is_new(reviews: pa.Table, owner: np.ndarray, is_context: np.ndarray) -> np.ndarray:
    """Whether no earlier context of the user is of the item; reviews sorted by user and time."""
    items = reviews["asin"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    _, pairs = np.unique(owner << 32 | items, return_inverse=True)
    first = np.full(len(items), len(items))
    places = np.flatnonzero(is_context)
    np.minimum.at(first, pairs[places], places)
    return first[pairs] >= np.arange(len(items))


def _one_key(reviews: pa.Table) -> KfrecError:
    """The error that names two users with one key."""
    users = reviews.group_by(["user_key", "reviewerID"]).aggregate([]).sort_by("user_key")
    keys = users["user_key"].to_numpy()
    first = int(np.flatnonzero(keys[1:] == keys[:-1])[0])
    one, other = users["reviewerID"].slice(first, 2).to_pylist()
    return KfrecError(f"users {one!r} and {other!r} have the same 64-bit hash; rename one of them in the events")


def _by_user_and_time(reviews: pa.Table, ties_by_item: bool) -> np.ndarray:
    users, times = (reviews[name].to_numpy() for name in ("user_key", "unixReviewTime"))
    asins = reviews["asin"].combine_chunks().dictionary_encode()
    rank = np.empty(len(asins.dictionary), np.int32)
    rank[pc.array_sort_indices(asins.dictionary).to_numpy()] = np.arange(len(rank), dtype=np.int32)
    ties = [rank[asins.indices.to_numpy()]]
    if not ties_by_item:
        ties.append(mixed((hashes_of(reviews["asin"]) ^ users).view(np.uint64)))
    return np.lexsort((*ties, times, users))


def _categories(asins: pa.ChunkedArray, items: Path) -> pa.Array:
    """The category of each asin, null where the item is unknown or has none."""
    known = read_items(items)
    wanted = asins.combine_chunks().dictionary_encode()
    rows = pc.index_in(wanted.dictionary, value_set=known["asin"])
    categories = known["category"].take(rows).combine_chunks().cast(pa.string())
    return categories.take(wanted.indices)
