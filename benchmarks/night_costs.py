"""What the history costs a night: ``python -m benchmarks.night_costs [--history 1,3,10,30] [--users N]``.

A night of SASRec in a shop whose items come and go continues a training on what is new, the last two days of the shop:
the champion's, which tested it, and tonight's. Before them lie more and more days of history. Of preprocess, tfrecord
and train it tells seconds of a processor, which other work on the machine does not change, and the peak of memory.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.process import run_measured
from benchmarks.shop_nights import CATEGORIES, GROWS, MODEL, SAMPLING, options_of, processor_seconds, write_days
from benchmarks.trained import run_step
from components.artifacts import open_artifact
from components.datasets.events.shop import make_shelf, simulate

STEPS = ("preprocess", "tfrecord", "train")
_NEW = 2


@dataclass(frozen=True)
class Night:
    """What a night with some days of history took.

    Attributes:
        events: those that were read, the new ones among them.
        samples: that trained.
        seconds: of a processor, by step.
        memory: peak in MB, by step.
    """

    history: int
    events: int
    samples: int
    seconds: Mapping[str, float]
    memory: Mapping[str, float]


def measure(histories: Sequence[int], users: int, items: int, seed: int, folder: Path) -> list[Night]:
    """A night for each number of days of history, whose new days are the same."""
    days, rng = max(histories) + _NEW, np.random.default_rng(seed)
    shelf = make_shelf(items, CATEGORIES, days, rng)
    write_days(simulate(shelf, users, days, rng), shelf, folder / "days", days)
    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder / 'mlflow.db'}"
    return [_night(range(days - _NEW - history, days), seed, folder, folder / str(history)) for history in histories]


def _night(days: Sequence[int], seed: int, shop: Path, folder: Path) -> Night:
    """The last one of some days, after a short training on those before it."""
    first, night = folder / "first", folder / "night"
    _steps(first, days[:-1], shop, GROWS, {"max_steps": 20, "seed": seed})
    earlier = {"workflow": first / "tfrecord", "validation_reviews": 0}
    training = {
        "epochs": 1,
        "patience": 0,
        "validation_share": 0,
        "export_epoch": "last",
        "continue_path": first / "model",
    }
    seconds, memory = _steps(night, days, shop, {**GROWS, **earlier}, {**training, "seed": seed})
    events, samples = (open_artifact(night / each).rows for each in ("parquet", "tfrecord"))
    return Night(len(days) - _NEW, events["events"], samples["train"], seconds, memory)


def _steps(
    folder: Path, days: Sequence[int], shop: Path, sampling: Mapping[str, Any], training: Mapping[str, Any]
) -> tuple[dict[str, float], dict[str, float]]:
    """Runs the steps on some days; returns what each took."""
    made = {name: f"--{name}={folder / name}" for name in ("raw", "parquet", "tfrecord", "model")}
    files = ",".join(f"events_{day}.csv" for day in days)
    run_step("download", made["raw"], "--dataset=events", f"--source={shop / 'days'}", f"--files={files}")
    given = {
        "preprocess": (made["raw"], made["parquet"], *options_of({**SAMPLING, **sampling})),
        "tfrecord": (made["parquet"], made["tfrecord"]),
        "train": (made["tfrecord"], made["model"], *options_of({**MODEL, **training})),
    }
    seconds, memory = {}, {}
    for step, arguments in given.items():
        before = processor_seconds()
        _, memory[step] = run_measured([sys.executable, "-m", f"components.{step}", *arguments])
        seconds[step] = processor_seconds() - before
        print(f"{folder}: {step} {seconds[step]:.1f} s, {memory[step]:.0f} MB", file=sys.stderr, flush=True)
    return seconds, memory


def table(nights: Sequence[Night]) -> str:
    """A Markdown table with one row per number of days."""
    lines = [f"| days of history | events read | samples | {', '.join(STEPS)}: processor s | MB |"]
    lines.append("|---:|---:|---:|---:|---:|")
    for night in nights:
        seconds = ", ".join(f"{night.seconds[step]:.1f}" for step in STEPS)
        memory = ", ".join(f"{night.memory[step]:.0f}" for step in STEPS)
        lines.append(f"| {night.history} | {night.events:,} | {night.samples:,} | {seconds} | {memory} |")
    return "\n".join(lines)


def main() -> int:
    options = _parser().parse_args()
    histories = [int(number) for number in options.history.split(",")]
    with tempfile.TemporaryDirectory(prefix="kfrec-night-costs-") as folder:
        print(table(measure(histories, options.users, options.items, options.seed, Path(folder))))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.night_costs", description=__doc__.partition("\n")[0])
    parser.add_argument("--history", default="1,3,10,30", metavar="DAYS", help="separated by commas (%(default)s)")
    parser.add_argument("--users", type=int, default=20_000, metavar="N", help="customers (%(default)s)")
    parser.add_argument("--items", type=int, default=2000, metavar="N", help="items (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
