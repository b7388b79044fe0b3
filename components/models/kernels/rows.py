"""The rows of a table that a batch names: each once, looked up, and sums of what is said about each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from components import arrays
from components.compiled import kernel
from components.models.kernels import host
from components.models.kernels.products import GRAIN
from components.models.kernels.vectors import LANES, load, store
from components.records.words import ones, prefetch, trailing_zeros

# Rows lie anywhere in memory: so many ahead of its turn, one is asked for.
_AHEAD = 12
_AT_ONCE = 1024  # rows that are sorted out before they are added
# So many take about as long as calling a kernel for them.
_NAMES, _ROWS = 8192, 1024
_BITS = np.uint64(64)  # of a word


def fits(values: tf.Tensor) -> bool:
    """Whether the kernels may be called, and can add up rows such as ``values``, ``[N, width]``."""
    return (
        host.are_allowed() and values.dtype == tf.float32 and values.shape.rank == 2 and values.shape[-1] % GRAIN == 0
    )


def named(
    ids: Sequence[tf.Tensor], largest: Sequence[int], offsets: Sequence[int], positions: slice, time_first: bool
) -> tf.Tensor:
    """Which rows of a table ids read that have parts of it.

    Args:
        ids: of F features, int32 or int64 ``[B]`` or ``[B, length]``; one outside 0..``largest`` counts as 0.
        largest: id of each feature.
        offsets: the row that a feature's id 0 reads.
        positions: of a history, those that are wanted.
        time_first: whether these come before the samples.

    Returns:
        ``[B, F]``, or ``[B, L, F]`` or ``[L, B, F]`` for L positions, in the type of the ids.
    """

    def shape_of(samples: Any, *length: Any) -> list[Any]:
        wanted = [None if most is None else len(range(most)[positions]) for most in length]
        return [*wanted, samples, len(ids)] if time_first else [samples, *wanted, len(ids)]

    def run(*ids: np.ndarray) -> np.ndarray:
        samples = len(ids[0])
        length = ids[0].size // max(samples, 1)
        wanted = range(length)[positions]
        out = arrays.empty(shape_of(*ids[0].shape), ids[0].dtype.type)
        steps = (1, samples) if time_first else (len(wanted), 1)

        def work(part: int, first: int, last: int) -> None:
            for feature, (values, most, offset) in enumerate(zip(ids, largest, offsets, strict=True)):
                flat = values.reshape(-1), length, wanted.start, len(wanted), most, offset, feature, len(ids)
                _name(*flat, *steps, out.reshape(-1), first, last)

        host.in_parts(work, samples, least=-(-_NAMES // max(len(wanted), 1)))
        return out

    rows = tf.numpy_function(run, ids, ids[0].dtype, stateful=False, name="rows_named")
    rows.set_shape(shape_of(*ids[0].shape))
    return rows


def distinct(groups: Sequence[tf.Tensor], rows: int) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """The rows that are named, ascending.

    Args:
        groups: of names, each ``[...]``, all int32 or all int64, from 0 to before ``rows``.

    Returns:
        The rows ``[R]``, in the type of the names, and for each group which of these its names are, int32 ``[...]``.
    """

    def run(*named: np.ndarray) -> list[np.ndarray]:
        _, found, places = numbered(named, rows)
        return [found, *places]

    kinds = [groups[0].dtype, *(tf.int32 for _ in groups)]
    found, *places = tf.numpy_function(run, list(groups), kinds, stateful=False, name="rows_distinct")
    found.set_shape([None])
    for place, group in zip(places, groups, strict=True):
        place.set_shape(group.shape)
    return found, places


def whole(variable: tf.Variable) -> tf.Tensor:
    """All values of a variable, where they stand.

    An operation of TensorFlow that reads or writes it by row would make it hand out copies from then on.
    """
    tf.raw_ops.DisableCopyOnRead(resource=variable.handle)
    return tf.convert_to_tensor(variable)


@tf.custom_gradient
def look_up(table: tf.Tensor, found: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple]]:
    """The rows ``found`` ``[R]`` of a table ``[N, width]``; its gradient is slices."""

    def gradient(upstream: tf.Tensor) -> tuple[tf.IndexedSlices, None]:
        return tf.IndexedSlices(upstream, found, tf.shape(table, found.dtype)), None

    def run(table: np.ndarray, found: np.ndarray) -> list[np.ndarray]:
        return [_copies(table, found)]

    return host.call(run, [table, found], [tf.TensorShape([None, table.shape[1]])])[0], gradient


def take(rows: tf.Tensor, groups: Sequence[tf.Tensor], again: bool) -> tuple[list[tf.Tensor], tf.Tensor]:
    """What rows hold, whose gradient is of all rows, as each is expected in some group.

    Args:
        rows: ``[R, width]``.
        groups: of places in these, each ``[..., F]``.
        again: whether the rows are used for something else too. Then that has to use those that are returned: their
            gradient is what this one is added to.

    Returns:
        For each group ``[..., F * width]``, and the rows.
    """
    width = rows.shape[1]
    shapes = [tf.TensorShape([*group.shape[:-1], group.shape[-1] * width]) for group in groups]

    def look(rows: np.ndarray, *groups: np.ndarray) -> list[np.ndarray]:
        return [_copies(rows, at).reshape(*at.shape[:-1], at.shape[-1] * width) for at in groups]

    def add_up(start: np.ndarray, *arrays: np.ndarray) -> list[np.ndarray]:
        upstream, groups = arrays[: len(arrays) // 2], arrays[len(arrays) // 2 :]
        out = _copy_of(start) if again else zeros(int(start), width)
        _add_to(out, upstream, groups)
        return [out]

    @tf.custom_gradient
    def compute(rows: tf.Tensor) -> tuple[list[tf.Tensor], Callable[..., tf.Tensor]]:
        def gradient(*upstream: tf.Tensor) -> tf.Tensor:
            *of_values, start = upstream if again else (*upstream, tf.shape(rows)[0])
            return host.call(add_up, [start, *of_values, *groups], [rows.shape])[0]

        values = host.call(look, [rows, *groups], shapes)
        return [*values, rows] if again else values, gradient

    values = compute(rows)
    return (values[:-1], values[-1]) if again else (values, rows)


def sums(values: tf.Tensor, places: tf.Tensor, count: tf.Tensor | int) -> tf.Tensor:
    """The sums of the values of equal place, ``[count, width]``.

    Args:
        values: float32 ``[N, width]``.
        places: int32 or int64 ``[N]``, from 0 to before ``count``.
        count: int32.
    """

    def run(values: np.ndarray, places: np.ndarray, count: np.ndarray) -> list[np.ndarray]:
        return [summed(values, places, int(count))]

    return host.call(run, [values, places, count], [tf.TensorShape([None, values.shape[1]])])[0]


def zeros(count: int, width: int) -> np.ndarray:
    """Rows of zeros, ``[count, width]``."""
    out = host.floats(count, width)
    host.in_parts(lambda part, first, last: out[first:last].fill(0), count)
    return out


def shares() -> int:
    """How many threads add to the rows of a table at a time: a power of two, for a cheap remainder."""
    return 1 << (host.threads().bit_length() - 1)


@kernel
def share_of(place, shares):  # type: ignore[no-untyped-def]
    """Which thread adds to a row. Neighbours have the same, as processors fetch cache lines in pairs."""
    return place >> 1 & shares - 1


def numbered(named: Sequence[np.ndarray], rows: int) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """See :func:`distinct`; and before these a bit for each row, set where it is named."""
    bits = np.zeros(-(-rows // int(_BITS)), np.uint64)
    below = np.empty(len(bits), np.int32)
    for names in named:
        _mark(names.reshape(-1), bits)
    found = arrays.empty([_count(bits, below)], named[0].dtype.type)
    _list(bits, found)
    places = [arrays.empty(names.shape, np.int32) for names in named]
    for names, numbers in zip(named, places, strict=True):
        flat = names.reshape(-1), bits, below, numbers.reshape(-1)
        host.in_parts(lambda part, first, last, flat=flat: _number(*flat, first, last), names.size, least=_NAMES)
    return bits, found, places


def grouped(places: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of the places are equal.

    Args:
        places: int32 ``[N]``, from 0 to before ``count``.
        count: of different places.

    Returns:
        Where the numbers of each place begin in the second array, int32 ``[count + 1]``; and those numbers, ascending
        for each place, int32 ``[N]``.
    """
    if len(places) == count and _in_order(places):
        return np.arange(count + 1, dtype=np.int32), places
    starts, members = np.zeros(count + 2, np.int32), np.empty(len(places), np.int32)
    _group(places, starts, members)
    return starts[:-1], members


def summed(values: np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
    """See :func:`sums`; the values themselves where each stands at its place."""
    if len(places) == count and _in_order(places):
        return values
    out = zeros(count, values.shape[1])
    _add_to(out, [values], [places])
    return out


def _copies(rows: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The rows at these places, one below the other."""
    width = rows.shape[1]
    out = host.floats(places.size, width)
    flat = rows.reshape(-1), places.reshape(-1), width, out.reshape(-1)
    host.in_parts(lambda part, first, last: _copy(*flat, first, last), places.size, least=_ROWS)
    return out


def _copy_of(rows: np.ndarray) -> np.ndarray:
    out = host.floats(*rows.shape)
    host.in_parts(lambda part, first, last: np.copyto(out[first:last], rows[first:last]), len(rows))
    return out


def _add_to(out: np.ndarray, values: Sequence[np.ndarray], places: Sequence[np.ndarray]) -> None:
    """Adds rows to those at their places."""
    pairs = [(rows.reshape(-1), at.reshape(-1)) for rows, at in zip(values, places, strict=True)]

    def add(part: int, first: int, last: int) -> None:
        chosen = np.empty(_AT_ONCE, np.int64)
        for share in range(first, last):
            for rows, at in pairs:
                _add(rows, at, out.shape[1], share, shares(), chosen, out.reshape(-1))

    host.in_parts(add, shares())


@kernel
def _name(  # type: ignore[no-untyped-def]
    ids, length, begin, count, largest, offset, feature, features, sample_step, position_step, out, first, last
):  # fmt: skip
    """Writes the rows of one feature's ids: ``count`` positions, from ``begin`` on, of a part of the samples."""
    for sample in range(first, last):
        for position in range(count):
            name = ids[sample * length + begin + position]
            to = (sample * sample_step + position * position_step) * features + feature
            out[to] = offset + (name if 0 <= name <= largest else 0)


@kernel
def _copy(rows, places, width, out, first, last):  # type: ignore[no-untyped-def]
    """Writes the rows at ``places``, from ``first`` to before ``last``."""
    for i in range(first, last):
        if i + _AHEAD < last:
            prefetch(rows, np.int64(places[i + _AHEAD]) * width)
        for j in range(0, width, LANES):
            store(out, i * width + j, load(rows, np.int64(places[i]) * width + j))


@kernel
def _in_order(places):  # type: ignore[no-untyped-def]
    """Whether the places are 0, 1, 2 and so on."""
    i = 0
    while i < len(places) and places[i] == i:
        i += 1
    return i == len(places)


@kernel
def _mark(named, bits):  # type: ignore[no-untyped-def]
    """Sets the bit of each row that is named."""
    # A bit a row fits into the second-level cache where a number a row does not.
    for i in range(len(named)):
        row = np.uint64(named[i])
        bits[row // _BITS] |= np.uint64(1) << row % _BITS


@kernel
def _count(bits, below):  # type: ignore[no-untyped-def]
    """How many bits are set; ``below`` gets how many before each word."""
    count = np.int32(0)
    for word in range(len(bits)):
        below[word] = count
        count += np.int32(ones(bits[word]))
    return count


@kernel
def _number(named, bits, below, places, first, last):  # type: ignore[no-untyped-def]
    """Writes which of the rows whose bit is set each name is, from ``first`` to before ``last``."""
    for i in range(first, last):
        row = np.uint64(named[i])
        lower = bits[row // _BITS] & ((np.uint64(1) << row % _BITS) - np.uint64(1))
        places[i] = below[row // _BITS] + np.int32(ones(lower))


@kernel
def _list(bits, found):  # type: ignore[no-untyped-def]
    """Writes down the rows whose bit is set."""
    at = 0
    for word in range(len(bits)):
        left = bits[word]
        while left:
            found[at] = word * np.int64(_BITS) + np.int64(trailing_zeros(left))
            left &= left - np.uint64(1)
            at += 1


@kernel
def _group(places, starts, members):  # type: ignore[no-untyped-def]
    """See :func:`grouped`; ``starts`` are zeros, and one more than it returns, to count in."""
    for place in places:
        starts[place + 2] += np.int32(1)
    for place in range(2, len(starts)):
        starts[place] += starts[place - 1]
    for i in range(len(places)):
        at = places[i] + 1
        members[starts[at]] = i
        starts[at] += np.int32(1)


@kernel
def _add(values, places, width, share, shares, chosen, out):  # type: ignore[no-untyped-def]
    """Adds the rows of ``values`` to their places in ``out``, of which it takes those of a share."""
    for begin in range(0, len(places), len(chosen)):
        count = 0
        for i in range(begin, min(begin + len(chosen), len(places))):
            # No branch: which share a place is in cannot be guessed.
            chosen[count] = i
            count += np.int64(share_of(np.int64(places[i]), shares) == share)
        for n in range(count):
            if n + _AHEAD < count:
                prefetch(out, np.int64(places[chosen[n + _AHEAD]]) * width)
            i = chosen[n]
            for j in range(0, width, LANES):
                at = np.int64(places[i]) * width + j
                store(out, at, load(out, at) + load(values, i * width + j))
