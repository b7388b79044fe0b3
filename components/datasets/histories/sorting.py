"""Reviews on disk, sorted by user, and one partition's users with enough of them, in chronological order.

The key of the sorted runs is a 64-bit hash of the user, so the partitioning depends only on the users' names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.errors import KfrecError
from components.random_draws import mixed
from components.workflows.key_runs import KeyRange, KeyRuns

SECOND = 10**9
# A profiled time's seconds per tick.
TICK = 1e-9
# A user, an item and a time in nanoseconds since 1970, by the names of the published reviews.
REVIEW = pa.schema([("reviewerID", pa.string()), ("asin", pa.string()), ("unixReviewTime", pa.int64())])
ITEM = pa.schema([("asin", pa.string()), ("category", pa.dictionary(pa.int32(), pa.string()))])
NO_CATEGORY = "no_category"
HISTORY = pa.schema(
    [
        ("user_key", pa.int64()),
        ("uid", pa.string()),
        ("item", pa.string()),
        ("cat", pa.string()),
        ("time", pa.int64()),
        ("is_new", pa.bool_()),
    ]
)


def write_items(tables: Iterable[pa.Table], output: Path) -> None:
    """Writes all items to one Arrow file. An item listed twice keeps both rows: readers take the first."""
    items = pa.concat_tables([ITEM.empty_table(), *tables]).unify_dictionaries().combine_chunks()
    with pa.ipc.new_file(output, ITEM) as writer:
        writer.write_table(items)


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


def user_runs(folder: Path) -> KeyRuns:
    """Runs of the schema ``REVIEW`` after a column user_key."""
    return KeyRuns(folder, "user_key", REVIEW, lambda reviews: hashes_of(reviews["reviewerID"]))


def user_histories(users: KeyRange, ties_by_item: bool) -> tuple[pa.Array, pa.Array]:
    """All events of a partition's users.

    Args:
        ties_by_item: as for ``write_histories``.

    Returns:
        The users, string ``[n]``, and the items of each, oldest first, list of string ``[n]``.

    Raises:
        KfrecError: two users share a key.
    """
    reviews = users.read().combine_chunks()
    reviews = reviews.take(pa.array(_by_user_and_time(reviews, ties_by_item))).combine_chunks()
    keys = reviews["user_key"].to_numpy()
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]]) if len(keys) else np.zeros(0, np.int64)
    if len(starts) != pc.count_distinct(reviews["reviewerID"]).as_py():
        raise _one_key(reviews)
    offsets = pa.array(np.append(starts, len(keys)), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, reviews["asin"].combine_chunks())
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
        tied: of the kept reviews, those of another item at the time of the user's review before.
    """

    path: Path | None
    users: int
    reviews: int
    with_category: int
    longest: int
    tied: int = 0


def write_histories(users: KeyRange, items: Path, shortest: int, ties_by_item: bool, output: Path) -> Histories:
    """Drops users with fewer than ``shortest`` reviews, sorts each user's reviews by time, adds the category.

    Args:
        items: Arrow file of the schema ``sorting.ITEM``; the first row of an item wins.
        ties_by_item: whether reviews of one time are in the order of their asins, as published. That order tells which
            of them comes next; the other one, by a hash of user and asin, does not.

    Raises:
        KfrecError: two users share a key.
    """
    reviews = users.read().combine_chunks()
    names = reviews["reviewerID"].combine_chunks().dictionary_encode().indices.to_numpy()
    lengths = np.bincount(names) if len(names) else np.zeros(0, np.int64)
    longest = int(lengths.max(initial=0))
    if longest < shortest:
        return Histories(None, 0, 0, 0, longest)
    reviews = reviews.filter(pa.array(lengths[names] >= shortest))
    reviews = reviews.take(pa.array(_by_user_and_time(reviews, ties_by_item))).combine_chunks()

    keys = reviews["user_key"].to_numpy()
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    if len(starts) != (lengths >= shortest).sum():
        raise _one_key(reviews)
    categories = _categories(reviews["asin"], items)
    columns = [
        reviews["user_key"],
        reviews["reviewerID"],
        reviews["asin"],
        categories.fill_null(NO_CATEGORY),
        reviews["unixReviewTime"],
        pa.array(_first_of_each_item(reviews, starts)),
    ]
    pq.write_table(pa.table(columns, schema=HISTORY), output)
    return Histories(output, len(starts), len(keys), len(keys) - categories.null_count, longest, _ties(reviews))


def _ties(reviews: pa.Table) -> int:
    """Reviews of another item than the user's review before, at the same time; reviews sorted by user and time."""
    keys, times = (reviews[name].to_numpy() for name in ("user_key", "unixReviewTime"))
    items = reviews["asin"].combine_chunks()
    is_other = pc.not_equal(items.slice(1), items.slice(0, max(len(items) - 1, 0))).to_numpy(zero_copy_only=False)
    return int(np.count_nonzero((keys[1:] == keys[:-1]) & (times[1:] == times[:-1]) & is_other))


def _first_of_each_item(reviews: pa.Table, starts: np.ndarray) -> np.ndarray:
    """Whether each review is its user's first one of the item; reviews sorted by user and time."""
    items = reviews["asin"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    users = np.zeros(len(items), np.int64)
    users[starts[1:]] = 1
    first = np.zeros(len(items), bool)
    first[np.unique(np.cumsum(users) << 32 | items, return_index=True)[1]] = True
    return first


def _one_key(reviews: pa.Table) -> KfrecError:
    """The error that names two users with one key."""
    users = reviews.group_by(["user_key", "reviewerID"]).aggregate([]).sort_by("user_key")
    keys = users["user_key"].to_numpy()
    first = int(np.flatnonzero(keys[1:] == keys[:-1])[0])
    one, other = users["reviewerID"].slice(first, 2).to_pylist()
    return KfrecError(f"users {one!r} and {other!r} have the same 64-bit hash; rename one of them in the reviews")


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
    known = pa.ipc.open_file(pa.memory_map(str(items))).read_all()
    wanted = asins.combine_chunks().dictionary_encode()
    rows = pc.index_in(wanted.dictionary, value_set=known["asin"])
    categories = known["category"].take(rows).combine_chunks().cast(pa.string())
    return categories.take(wanted.indices)
