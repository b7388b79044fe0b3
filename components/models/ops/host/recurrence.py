"""Forward and backward pass of a gated recurrence on a CPU, tile by tile through all steps.

TensorFlow runs each operation on the whole batch, which reads and writes memory. Here TILE samples go through all steps
while weights and activations stay in the L2 cache.

The equations are those of ``components.models.layers.recurrence.GatedRecurrence``. T steps, B samples, I inputs,
H units; I and H are multiples of GRAIN. All arrays are float32, contiguous and flat.
"""

from __future__ import annotations

import numpy as np

from components.models.ops.host.activations import sigmoid, tanh
from components.models.ops.host.products import TILE, add_transposed, multiply, packed
from components.models.ops.host.vectors import LANES, everywhere, load, store, stream, total
from components.native.compiled import kernel

_ONE, _ZERO = np.float32(1), np.float32(0)


def saved_size(steps: int, samples: int, units: int) -> int:
    """Floats saved for the backward pass: u, r, h Uc and c of each step, by tile."""
    return -(-samples // TILE) * TILE * steps * 4 * units


def forward_room(inputs: int, units: int) -> int:
    """Scratch floats of ``forward``."""
    return TILE * (inputs + units) + TILE * 4 * units


def backward_room(inputs: int, units: int) -> int:
    """Scratch floats of ``backward``."""
    return TILE * (_across(units) + units + inputs)


@kernel
def _across(units):  # type: ignore[no-untyped-def]
    """Stride of the samples' gradients, in floats; a power of two would cause cache conflicts."""
    return 4 * units + LANES


def packed_forward(kernels: np.ndarray, recurrent: np.ndarray) -> np.ndarray:
    """The weights for ``forward``: [Wu Wr; Uu Ur], Wc and Uc in panels.

    Args:
        kernels: ``[3, I, H]``, of update gate, reset gate and candidate.
        recurrent: ``[3, H, H]``, in the same order.
    """
    gates = np.concatenate([_side_by_side(kernels[:2]), _side_by_side(recurrent[:2])])
    return packed(gates, kernels[2], recurrent[2])


def packed_backward(kernels: np.ndarray, recurrent: np.ndarray) -> np.ndarray:
    """The weights for ``backward``: the transposes of [Wc Wu Wr] and [Uu Ur Uc] in panels."""
    return packed(_side_by_side(kernels[[2, 0, 1]]).T, _side_by_side(recurrent).T)


def _side_by_side(gates: np.ndarray) -> np.ndarray:
    return np.concatenate(list(gates), 1)


@kernel
def forward(x, carry, weights, biases, sizes, first, last, saved, room, states):  # type: ignore[no-untyped-def]
    """The forward pass of tiles ``[first, last)``.

    Args:
        x: [T, B, I].
        carry: [T, B], 1 - attention; empty for a plain recurrence.
        weights: of ``packed_forward``.
        biases: [3, H].
        sizes: T, B, I, H.
        saved: output for the backward pass, ``saved_size``.
        room: scratch, ``forward_room``.
        states: output, the state after each step, [T, B, H].
    """
    steps, samples, inputs, units = sizes
    reads = inputs + units
    of_candidate = reads * 2 * units
    recalls_candidate = of_candidate + inputs * units
    gates, row_size = TILE * reads, 4 * units
    room[:] = _ZERO
    for tile in range(first, last):
        begin = tile * TILE
        rows = min(TILE, samples - begin)
        for row in range(rows):
            for j in range(0, units, LANES):
                store(room, row * reads + inputs + j, everywhere(_ZERO))
        for step in range(steps):
            to_keep = (tile * steps + step) * TILE * 4 * units
            for row in range(rows):
                sample, to = step * samples + begin + row, row * reads
                for i in range(0, inputs, LANES):
                    store(room, to + i, load(x, sample * inputs + i))
            depth = reads if step else inputs
            multiply(False, room, 0, reads, depth, weights, 0, reads, 2 * units, room, gates, row_size)
            multiply(
                False, room, 0, reads, inputs, weights, of_candidate, inputs, units,
                room, gates + 3 * units, row_size,
            )  # fmt: skip
            if step:
                multiply(
                    False, room, inputs, reads, units, weights, recalls_candidate, units, units,
                    room, gates + 2 * units, row_size,
                )  # fmt: skip
            for row in range(rows):
                carried = everywhere(carry[step * samples + begin + row] if len(carry) else _ONE)
                u, kept = gates + row * row_size, to_keep + row * row_size
                h, out = row * reads + inputs, (step * samples + begin + row) * units
                # Both gates before their uses: out-of-order execution has a limited window.
                for j in range(0, 2 * units if step else units, LANES):
                    gate = sigmoid(load(room, u + j) + load(biases, j))
                    store(room, u + j, gate)
                    stream(saved, kept + j, gate)
                for j in range(0, units, LANES):
                    fresh = load(room, u + 3 * units + j) + load(biases, 2 * units + j)
                    if step:
                        recalled = load(room, u + 2 * units + j)
                        fresh = fresh + load(room, u + units + j) * recalled
                        stream(saved, kept + 2 * units + j, recalled)
                    fresh = tanh(fresh)
                    state = fresh + carried * load(room, u + j) * (load(room, h + j) - fresh)
                    stream(saved, kept + 3 * units + j, fresh)
                    store(room, h + j, state)
                    stream(states, out + j, state)


@kernel
def backward(  # type: ignore[no-untyped-def]
    x, carry, weights, sizes, first, last, saved, states, upstream, every, room, of_x, of_kernels,
    of_recurrent, of_biases, of_carry,
):  # fmt: skip
    """The backward pass of ``forward``, for the same tiles.

    Args:
        x, carry, sizes, saved, states: of ``forward``.
        weights: of ``packed_backward``.
        upstream: the gradient of all states, [T, B, H], or of the last one, [B, H].
        every: whether ``upstream`` is that of all states.
        room: scratch, ``backward_room``.
        of_x: output, [T, B, I].
        of_kernels: accumulated, [I, 3 H], of candidate, update and reset gate.
        of_recurrent: accumulated, [H, 3 H], of update and reset gate and candidate.
        of_biases: accumulated, [3 H], in the order of the kernels.
        of_carry: output, [T, B]; empty without a carry.
    """
    steps, samples, inputs, units = sizes
    one, zero = everywhere(_ONE), everywhere(_ZERO)
    # A tile's gradients: of c, u, r and h Uc, contiguous, because products with x use the first three and products with
    # h the last three; of h; and of x.
    across = _across(units)
    of_h = TILE * across
    of_tile_x = of_h + TILE * units
    of_states = 3 * units * inputs
    room[:] = _ZERO
    for tile in range(first, last):
        begin = tile * TILE
        rows = min(TILE, samples - begin)
        room[of_h : of_h + TILE * units] = _ZERO
        for step in range(steps - 1, -1, -1):
            at = (tile * steps + step) * TILE * 4 * units
            if every or step == steps - 1:
                source = (step * samples * every + begin) * units
                for i in range(0, rows * units, LANES):
                    store(room, of_h + i, load(room, of_h + i) + load(upstream, source + i))
            for row in range(rows):
                sample = step * samples + begin + row
                carried = everywhere(carry[sample] if len(carry) else _ONE)
                u, g, h = at + row * 4 * units, row * across, of_h + row * units
                before = (sample - samples) * units
                of_carried = zero
                for j in range(0, units, LANES):
                    unsplit = load(room, h + j)
                    update, fresh = load(saved, u + j), load(saved, u + 3 * units + j)
                    held = unsplit * carried * update
                    candidate = (unsplit - held) * (one - fresh * fresh)
                    kept = unsplit * ((load(states, before + j) if step else zero) - fresh) * update
                    of_carried = of_carried + kept
                    store(room, h + j, held)
                    store(room, g + j, candidate)
                    store(room, g + units + j, kept * carried * (one - update))
                    if step:
                        reset = load(saved, u + units + j)
                        recalled = candidate * reset
                        store(room, g + 2 * units + j, recalled * (one - reset) * load(saved, u + 2 * units + j))
                        store(room, g + 3 * units + j, recalled)
                    else:
                        store(room, g + 2 * units + j, zero)
                if len(carry):
                    of_carry[sample] = total(of_carried)
            for j in range(0, units, LANES):
                of_c, of_u, of_r = zero, zero, zero
                for g in range(j, j + rows * across, across):
                    of_c = of_c + load(room, g)
                    of_u = of_u + load(room, g + units)
                    of_r = of_r + load(room, g + 2 * units)
                store(of_biases, j, load(of_biases, j) + of_c)
                store(of_biases, units + j, load(of_biases, units + j) + of_u)
                store(of_biases, 2 * units + j, load(of_biases, 2 * units + j) + of_r)
            # Weight gradients: x' G and h' G.
            now = (step * samples + begin) * inputs
            add_transposed(x, now, inputs, inputs, rows, room, 0, across, 3 * units, of_kernels, 0, 3 * units)
            if step:
                h = ((step - 1) * samples + begin) * units
                add_transposed(
                    states, h, units, units, rows, room, units, across, 3 * units, of_recurrent, 0, 3 * units
                )  # fmt: skip
            # Input and state gradients: G W' and G U'.
            multiply(False, room, 0, across, 3 * units, weights, 0, 3 * units, inputs, room, of_tile_x, inputs)
            for i in range(0, rows * inputs, LANES):
                stream(of_x, now + i, load(room, of_tile_x + i))
            if step:
                multiply(True, room, units, across, 3 * units, weights, of_states, 3 * units, units, room, of_h, units)
