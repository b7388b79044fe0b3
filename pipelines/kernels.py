"""Compiles the kernels of the host before the first training: ``make setup`` ends with it.

Kernels compile at their first call, for the processor at hand, and stay on disk. A tiny training of each model that has
kernels calls all of them; what a newcomer's first run would wait for happens while packages are installed.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from components.steps.command import command
from pipelines.temporary import temporary_folder

_RAW = ("--synthetic_users=50", "--synthetic_items=80")
# SIM's search has histories of its own length; DIEN has no search and DIN no recurrence.
_MODELS = {"sim": ("--long_seq_length=90",), "dien": (), "din": ()}


def compile_kernels(folder: Path) -> None:
    """Takes small synthetic data to records, and trains each model on them for an epoch in this process.

    Raises:
        RuntimeError: a step failed; it has printed why.
    """
    raw, parquet, tfrecord = (str(folder / name) for name in ("raw", "parquet", "tfrecord"))
    _require(command("download", [f"--raw={raw}", *_RAW]))
    _require(command("preprocess", [f"--raw={raw}", f"--parquet={parquet}", "--workers=1"]))
    _require(command("tfrecord", [f"--parquet={parquet}", f"--tfrecord={tfrecord}"]))
    from components.train.worker import main as worker

    for model, options in _MODELS.items():
        places = (f"--dataset_dir={tfrecord}", f"--results_dir={folder / model}", f"--model_type={model}")
        _require(worker([*places, "--global_batch_size=256", "--epochs=1", *options]))


def _require(status: int) -> None:
    if status:
        raise RuntimeError(f"exit status {status}")


def main() -> int:
    """Compiles silently; a failure is no obstacle, since kernels compile at their first call."""
    with temporary_folder() as folder, (folder / "log").open("w") as log:
        try:
            with redirect_stdout(log), redirect_stderr(log):
                compile_kernels(folder)
        except (RuntimeError, SystemExit):
            log.flush()
            print((folder / "log").read_text(), file=sys.stderr)
            print("the kernels were not compiled; the first training compiles them", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
