"""TensorFlow's list of a folder's checkpoints: a file that names the newest one and the others.

    model_checkpoint_path: "ckpt-120"
    all_model_checkpoint_paths: "ckpt-60"
    all_model_checkpoint_paths: "ckpt-120"

It is written last, so every checkpoint that it names is complete. Without it a checkpoint is complete if its index is
there, which TensorFlow writes last.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

NAME = "ckpt"
LIST = "checkpoint"
_INDEX = re.compile(rf"({NAME}-(\d+))\.index")
_NAMED = re.compile(r'^all_model_checkpoint_paths: "(.+)"$', re.MULTILINE)


def list_text(names: Sequence[str]) -> str:
    """The content of the list; the last name is that of the newest checkpoint."""
    lines = [f'model_checkpoint_path: "{names[-1]}"', *(f'all_model_checkpoint_paths: "{name}"' for name in names)]
    return "\n".join(lines) + "\n"


def listed_names(text: str) -> list[str]:
    """The names in a list, the newest checkpoint last."""
    return [Path(name).name for name in _NAMED.findall(text)]


def read_list(folder: Path) -> list[str]:
    """The names of a folder's checkpoints, the newest last; empty without a list."""
    path = folder / LIST
    return listed_names(path.read_text(errors="replace")) if path.is_file() else []


def complete_names(folder: Path) -> list[str]:
    """The names of a folder's complete checkpoints, the newest first: those of its list, then others by their steps."""
    found = {of[1]: int(of[2]) for path in folder.glob("*.index") if (of := _INDEX.fullmatch(path.name))}
    listed = [name for name in reversed(read_list(folder)) if name in found]
    return listed + sorted(found.keys() - set(listed), key=found.__getitem__, reverse=True)


def write_list(folder: Path, names: Sequence[str]) -> None:
    """Replaces a folder's list atomically."""
    partial = folder / f".{LIST}.partial"
    partial.write_text(list_text(names))
    partial.replace(folder / LIST)
