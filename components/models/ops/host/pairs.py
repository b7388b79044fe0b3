"""Forward and backward pass of a network that scores pairs, such as an item and a target, tile by tile.

Two hidden layers with sigmoids and one output. The first layer is linear in its operands, so that operands shared by
several pairs are multiplied once:

    score = w3 · sigmoid(W2' sigmoid(Wx' x + Wy' y + share) + b2) + b3

TILE samples go through all steps while weights and activations stay in the L2 cache. T steps, B samples, x of I floats,
N different y of J floats for each x; the hidden layers have F1 and F2 units, padded to P1 and P2, multiples of GRAIN; I
and J are such multiples. All arrays are float32, contiguous and flat.
"""

from __future__ import annotations

import numpy as np

from components.models.ops.host.activations import sigmoid
from components.models.ops.host.products import (
    TILE,
    add_transposed,
    multiply,
    packed,
    padded,
)
from components.models.ops.host.vectors import LANES, ask, everywhere, load, store, stream, total
from components.native.compiled import kernel

_ONE, _ZERO = np.float32(1), np.float32(0)

Sizes = tuple[int, int, int, int, int, int, int]
"""T, B, I, J, N, F1, F2."""


def kept_size(sizes: Sizes) -> int:
    """Floats saved for the backward pass: both hidden layers of each pair, by tile."""
    steps, samples, _, _, kinds, first, second = sizes
    return -(-samples // TILE) * TILE * steps * kinds * (padded(first) + padded(second))


def forward_room(sizes: Sizes) -> int:
    """Scratch floats of ``forward``."""
    _, _, inputs, others, _, first, second = sizes
    return TILE * (inputs + others + 2 * padded(first) + padded(second))


def backward_room(sizes: Sizes) -> int:
    """Scratch floats of ``backward``."""
    _, _, inputs, others, _, first, second = sizes
    return TILE * (inputs + others + 3 * padded(first) + padded(second))


def gradient_sizes(sizes: Sizes) -> tuple[int, ...]:
    """Floats of the gradients of Wx, Wy, W2, a common share, b2, w3 and b3."""
    _, _, inputs, others, _, first, second = sizes
    wide, narrow = padded(first), padded(second)
    return inputs * wide, others * wide, wide * narrow, wide, narrow, narrow, 1


def packed_forward(of_x: np.ndarray, of_y: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The weights for ``forward``: Wx ``[I, F1]``, Wy ``[J, F1]`` and W2 ``[F1, F2]`` in panels."""
    return packed(of_x, of_y, second)


def packed_backward(of_x: np.ndarray, of_y: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The weights for ``backward``: their transposes in panels."""
    return packed(of_x.T, of_y.T, second.T)


@kernel
def _read(values, at, rows, width, room, to):  # type: ignore[no-untyped-def]
    """Copies rows of ``width`` floats."""
    for i in range(0, rows * width, LANES):
        store(room, to + i, load(values, at + i))


@kernel
def _write(room, at, rows, width, values, to):  # type: ignore[no-untyped-def]
    """Copies rows of ``width`` floats by non-temporal stores."""
    for i in range(0, rows * width, LANES):
        stream(values, to + i, load(room, at + i))


@kernel
def forward(  # type: ignore[no-untyped-def]
    x, y, shares, weights, second_bias, output, sizes, wide, narrow, first, last, room, kept, scores
):  # fmt: skip
    """Scores the samples of tiles ``[first, last)``.

    Args:
        x: [T or more, B, I].
        y: [N, T, B, J].
        shares: [B, P1], or [P1] for a common share.
        weights: of ``packed_forward``.
        second_bias: b2, [P2].
        output: w3 and b3, [P2 + 1].
        sizes: T, B, I, J, N, F1, F2.
        wide, narrow: P1, P2.
        room: scratch, ``forward_room``.
        kept: output for the backward pass, ``kept_size``.
        scores: output, [N, T, B].
    """
    steps, samples, inputs, others, kinds, first_units, _ = sizes
    of_y = inputs * wide
    of_second = of_y + others * wide
    to_y = TILE * inputs
    to_base = to_y + TILE * others
    to_copy = to_base + TILE * wide
    to_second = to_copy + TILE * wide
    own_share = len(shares) > wide
    room[:] = _ZERO
    for tile in range(first, last):
        begin = tile * TILE
        rows = min(TILE, samples - begin)
        for step in range(steps):
            _read(x, (step * samples + begin) * inputs, rows, inputs, room, 0)
            multiply(False, room, 0, inputs, inputs, weights, 0, inputs, wide, room, to_base, wide)
            for kind in range(kinds):
                pair = (kind * steps + step) * samples + begin
                _read(y, pair * others, rows, others, room, to_y)
                to_first = to_base
                if kind < kinds - 1:  # later kinds need it
                    to_first = to_copy
                    _read(room, to_base, TILE, wide, room, to_first)
                multiply(True, room, to_y, others, others, weights, of_y, others, wide, room, to_first, wide)
                keep = ((tile * steps + step) * kinds + kind) * TILE * (wide + narrow)
                following = pair + steps * samples if kind < kinds - 1 else (step + 1) * samples + begin
                for row in range(rows):
                    if kind == 0:
                        ask(x, ((step + 1) * samples + begin + row) * inputs, inputs)
                    ask(y, (following + row) * others, others)
                    at, share = to_first + row * wide, (begin + row) * wide if own_share else 0
                    for j in range(0, wide, LANES):
                        hidden = sigmoid(load(room, at + j) + load(shares, share + j))
                        store(room, at + j, hidden)
                        stream(kept, keep + row * (wide + narrow) + j, hidden)
                multiply(
                    False, room, to_first, wide, first_units, weights, of_second, first_units, narrow,
                    room, to_second, narrow,
                )  # fmt: skip
                for row in range(rows):
                    score = everywhere(_ZERO)
                    for j in range(0, narrow, LANES):
                        hidden = sigmoid(load(room, to_second + row * narrow + j) + load(second_bias, j))
                        stream(kept, keep + row * (wide + narrow) + wide + j, hidden)
                        score = score + hidden * load(output, j)
                    scores[pair + row] = total(score) + output[narrow]


@kernel
def backward(  # type: ignore[no-untyped-def]
    x, y, own_share, weights, output, sizes, wide, narrow, first, last, kept, upstream, room, of_x, of_y,
    of_shares, of_wx, of_wy, of_second, of_share, of_second_bias, of_output, of_output_bias,
):  # fmt: skip
    """The backward pass of ``forward``, for the same tiles.

    Args:
        x, y, output, sizes, wide, narrow, kept: of ``forward``.
        own_share: whether shares are per sample.
        weights: of ``packed_backward``.
        upstream: the scores' gradients, [N, T, B].
        room: scratch, ``backward_room``.
        of_x: output, [T, B, I].
        of_y: output, [N, T, B, J].
        of_shares: output, [B, P1] for shares per sample.
        of_wx, of_wy, of_second, of_share, of_second_bias, of_output, of_output_bias: accumulated, [I, P1], [J, P1],
            [P1, P2], [P1], [P2], [P2] and [1].
    """
    steps, samples, inputs, others, kinds, first_units, second_units = sizes
    one = everywhere(_ONE)
    across = wide + narrow
    by_wy = first_units * inputs
    by_second = by_wy + first_units * others
    # A tile's gradients: of x and y; of the first layer's pre-activations, the same
    # summed over kinds and over steps; of the second layer's pre-activations.
    tile_x = 0
    tile_y = tile_x + TILE * inputs
    outer = tile_y + TILE * others
    summed = outer + TILE * wide
    tile_shares = summed + TILE * wide
    inner = tile_shares + TILE * wide
    room[:] = _ZERO
    for tile in range(first, last):
        begin = tile * TILE
        rows = min(TILE, samples - begin)
        room[tile_shares : tile_shares + TILE * wide] = _ZERO
        for step in range(steps):
            now = (step * samples + begin) * inputs
            for kind in range(kinds):
                pair = (kind * steps + step) * samples + begin
                keep = ((tile * steps + step) * kinds + kind) * TILE * across
                for row in range(rows):
                    of_score = everywhere(upstream[pair + row])
                    of_output_bias[0] += upstream[pair + row]
                    for j in range(0, narrow, LANES):
                        hidden = load(kept, keep + row * across + wide + j)
                        before = of_score * load(output, j) * hidden * (one - hidden)
                        store(room, inner + row * narrow + j, before)
                        store(of_output, j, load(of_output, j) + of_score * hidden)
                        store(of_second_bias, j, load(of_second_bias, j) + before)
                add_transposed(kept, keep, across, wide, rows, room, inner, narrow, narrow, of_second, 0, narrow)
                multiply(
                    False, room, inner, narrow, second_units, weights, by_second, second_units, wide,
                    room, outer, wide,
                )  # fmt: skip
                following = pair + steps * samples if kind < kinds - 1 else (step + 1) * samples + begin
                for row in range(rows):
                    ask(kept, keep + (TILE + row) * across, across)
                    if kind == 0:
                        ask(x, now + (samples + row) * inputs, inputs)
                    ask(y, (following + row) * others, others)
                    for j in range(0, wide, LANES):
                        at, hidden = row * wide + j, load(kept, keep + row * across + j)
                        before = load(room, outer + at) * hidden * (one - hidden)
                        store(room, outer + at, before)
                        store(room, summed + at, load(room, summed + at) + before if kind else before)
                multiply(
                    False, room, outer, wide, first_units, weights, by_wy, first_units, others,
                    room, tile_y, others,
                )  # fmt: skip
                add_transposed(y, pair * others, others, others, rows, room, outer, wide, wide, of_wy, 0, wide)
                _write(room, tile_y, rows, others, of_y, pair * others)
            for i in range(0, rows * wide, LANES):
                store(room, tile_shares + i, load(room, tile_shares + i) + load(room, summed + i))
            add_transposed(x, now, inputs, inputs, rows, room, summed, wide, wide, of_wx, 0, wide)
            multiply(False, room, summed, wide, first_units, weights, 0, first_units, inputs, room, tile_x, inputs)
            _write(room, tile_x, rows, inputs, of_x, now)
        if own_share:
            _write(room, tile_shares, rows, wide, of_shares, begin * wide)
        else:
            for row in range(rows):
                for j in range(0, wide, LANES):
                    store(of_share, j, load(of_share, j) + load(room, tile_shares + row * wide + j))
