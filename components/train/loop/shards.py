"""Table shards beside a checkpoint: a NumPy file for each shard of each table and of its optimizer state.

    ckpt-90.index, ckpt-90.data-00000-of-00001   replicated variables, and the list of shards
    ckpt-90.table-3.1.npy                        rank 1's shard of the fourth sharded variable

Every rank writes its files before the first rank writes the rest, so that a checkpoint listed by TensorFlow is
complete. Restoring re-shards: the number of ranks may differ from that of the save.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path

import numpy as np
import tensorflow as tf

from components.errors import KfrecError
from components.models.tables.placement import Part, sharding_of
from components.train.loop.state import VARIABLES, key_of

# A shard in a file: its part of the table, and its values.
Piece = tuple[Part, np.ndarray]

_NAME = re.compile(r"(.+)\.table-\d+\.(\d+)\.npy")
_ROWS = 1 << 18  # rows of a read chunk


def layout_of(variables: Mapping[str, tf.Variable]) -> dict[str, list[list[int]]]:
    """The parts of sharded variables by path and rank, as JSON."""
    shardings = {path: sharding_of(variable) for path, variable in variables.items()}
    return {
        path: [list(astuple(part)) for part in sharding.parts]
        for path, sharding in shardings.items()
        if sharding is not None
    }


def write_parts(prefix: str, variables: Mapping[str, tf.Variable], rank: int) -> list[Path]:
    """Writes this rank's shards; returns the files."""
    files = []
    for number, path in enumerate(layout_of(variables)):
        file = _file(prefix, number, rank)
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(f".{file.name}.partial")
        with partial.open("wb") as out:
            np.save(out, variables[path].numpy())
        files.append(partial.replace(file))
    return files


def remove_parts(folder: Path, kept: Iterable[str]) -> None:
    """Removes the shards of deleted checkpoints."""
    names = set(kept)
    for file in folder.glob("*.npy"):
        match = _NAME.fullmatch(file.name)
        if match and match[1] not in names:
            file.unlink(missing_ok=True)


def is_part(name: str) -> bool:
    """Whether a checkpoint file of this name is a table shard."""
    return _NAME.fullmatch(name) is not None


def rank_of(name: str) -> int:
    """The rank that writes a checkpoint file of this name."""
    match = _NAME.fullmatch(name)
    return int(match[2]) if match else 0


def require_readable_parts(prefix: str, layout: Mapping[str, Sequence[Sequence[int]]]) -> None:
    """Checks the sizes of the shards that are on this machine.

    Raises:
        KfrecError: one is damaged.
    """
    for number, parts in enumerate(layout.values()):
        for rank, part in enumerate(parts):
            if (file := _file(prefix, number, rank)).is_file():
                _piece(file, Part(*part))


def read_parts(
    prefix: str, layout: Mapping[str, Sequence[Sequence[int]]], variables: Mapping[str, tf.Variable]
) -> None:
    """Restores this rank's shards of variables that are sharded here or in the checkpoint.

    Args:
        layout: of the variables that are sharded in the checkpoint.

    Raises:
        KfrecError: a file is missing or damaged.
    """
    for path, variable in variables.items():
        sharding = sharding_of(variable)
        if path in layout:
            number = list(layout).index(path)
            parts = [Part(*part) for part in layout[path]]
            # With the same division a rank reads only its own file; another node may hold those of the others.
            own = sharding.peers.rank if sharding is not None and list(sharding.parts) == parts else None
            wanted = range(len(parts)) if own is None else [own]
            pieces = [_piece(_file(prefix, number, rank), parts[rank]) for rank in wanted]
        elif sharding is not None:
            values = tf.train.load_checkpoint(prefix).get_tensor(key_of(VARIABLES, path))
            pieces = [(Part(0, 1, values.shape[0], 0, values.shape[1]), values)]
        else:
            continue
        rows, width = variable.shape
        part = sharding.mine if sharding is not None else Part(0, 1, rows, 0, width)
        for begin in range(0, rows, _ROWS):
            end = min(begin + _ROWS, rows)
            variable[begin:end].assign(_collected(part, begin, end, pieces))


def _collected(part: Part, begin: int, end: int, pieces: Sequence[Piece]) -> np.ndarray:
    """Rows ``[begin, end)`` of a part, from pieces of the same table."""
    out = np.empty([end - begin, part.width], np.float32)
    ids = part.ids(begin, end)
    for piece, values in pieces:
        first, last = max(piece.begin, part.begin), min(piece.end, part.end)
        if first < last and piece.rows:
            held, positions = piece.find(ids)
            out[held, first - part.begin : last - part.begin] = values[
                positions, first - piece.begin : last - piece.begin
            ]
    return out


def _piece(file: Path, part: Part) -> Piece:
    remedy = "fetch the whole checkpoint, or give another"
    try:
        values = np.load(file, mmap_mode="r" if part.size else None)
    except FileNotFoundError:
        raise KfrecError(f"{file}: missing, so the checkpoint is not complete here; {remedy}") from None
    except (ValueError, EOFError) as error:
        raise KfrecError(f"{file}: damaged ({str(error).splitlines()[0][:100]}); {remedy}") from None
    if values.shape != (part.rows, part.width):
        raise KfrecError(f"{file}: has shape {list(values.shape)}, not {[part.rows, part.width]}; {remedy}")
    return part, values


def _file(prefix: str, number: int, rank: int) -> Path:
    return Path(f"{prefix}.table-{number}.{rank}.npy")
