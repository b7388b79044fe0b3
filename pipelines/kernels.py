"""Warms up the cache of compiled CPU kernels, at the end of ``make setup``.

Kernels of records are compiled at their first call, for the host's processor, and cached on disk. A tiny conversion and
a tiny training call all of them, so that the first real run does not wait for the compiler.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import IO

from components.steps.command import command
from components.temporary import temporary_folder

_RAW = ("--synthetic_users=50", "--synthetic_items=80")


def compile_kernels(folder: Path) -> None:
    """Makes records of small synthetic data, and trains the default model on them for one epoch in this process.

    Raises:
        RuntimeError: a step failed; it has printed the reason.
    """
    raw, parquet, tfrecord = (str(folder / name) for name in ("raw", "parquet", "tfrecord"))
    _require(command("download", [f"--raw={raw}", *_RAW]))
    _require(command("preprocess", [f"--raw={raw}", f"--parquet={parquet}", "--workers=1"]))
    _require(command("tfrecord", [f"--parquet={parquet}", f"--tfrecord={tfrecord}"]))
    from components.train.worker import main as worker

    folders = (f"--dataset_dir={tfrecord}", f"--results_dir={folder / 'model'}")
    _require(worker([*folders, "--global_batch_size=256", "--epochs=1"]))


@contextmanager
def _native_messages_into(log: IO[str]) -> Iterator[None]:
    """TensorFlow's C++ writes to the descriptor of stderr, which Python's redirection leaves as it is."""
    own = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(own, 2)
        os.close(own)


def _require(status: int) -> None:
    if status:
        raise RuntimeError(f"exit status {status}")


def main() -> int:
    """Compiles silently; a failure is harmless, since kernels are compiled at their first call anyway."""
    with temporary_folder() as folder, (folder / "log").open("w") as log:
        try:
            with redirect_stdout(log), redirect_stderr(log), _native_messages_into(log):
                compile_kernels(folder)
        except (RuntimeError, SystemExit):
            log.flush()
            print((folder / "log").read_text(), file=sys.stderr)
            print("the kernels were not compiled; the first training compiles them", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
