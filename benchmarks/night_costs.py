"""What the history costs a night: ``python -m benchmarks.night_costs [FORM] [--history 1,3,10,30]``.

A night continues a training on what is new, the last two days: the champion's, which tested it, and tonight's. Before
them lie more and more days of history. Of preprocess, tfrecord and train it tells seconds of a processor, which other
work on the machine does not change, and the peak of memory. The forms:

    events    SASRec in a shop whose items come and go; the history of the new days' customers is read
    criteo    DLRM on days of impressions whose values come and go; rows of one older day are read, to train once more
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import shop_nights
from benchmarks.nights import GROWS, SAMPLING, TURNOVER
from benchmarks.planted import CASES
from benchmarks.process import processor_seconds, run_measured
from benchmarks.shop_nights import CATEGORIES, write_days
from benchmarks.trained import options_of, run_step
from components.artifacts import open_artifact
from components.datasets.events.shop import make_shelf, simulate

STEPS = ("preprocess", "tfrecord", "train")
_NEW = 2


@dataclass(frozen=True)
class Form:
    """What the nights of a data set are made of.

    Attributes:
        write: writes the days, given their number, rows in thousands a day, a seed and a folder.
        file: name of a day's file, with its number.
        read: the days of history that a night reads.
        rows: what a row of the data is called in the parquet artifact.
        sampling: parameters of the preprocess step.
        grows: those of a vocabulary that grows.
        continues: those of a night that continues another one.
        training: parameters of the train step.
    """

    write: Callable[[int, int, int, Path], None]
    file: str
    read: Callable[[Sequence[int]], Sequence[int]]
    rows: str
    sampling: Mapping[str, Any]
    grows: Mapping[str, Any]
    continues: Mapping[str, Any]
    training: Mapping[str, Any]


def _write_shop(days: int, thousands: int, seed: int, folder: Path) -> None:
    """A customer has about one event a day; there is an item for ten of them."""
    rng = np.random.default_rng(seed)
    shelf = make_shelf(100 * thousands, CATEGORIES, days, rng)
    write_days(simulate(shelf, 1000 * thousands, days, rng), shelf, folder, days)


def _write_impressions(days: int, thousands: int, seed: int, folder: Path) -> None:
    sizes = dict(synthetic_impressions=1000 * thousands * days, synthetic_days=days, synthetic_turnover=TURNOVER)
    run_step("download", "--dataset=criteo", f"--raw={folder}", f"--seed={seed}", *options_of(sizes))


FORMS = {
    "events": Form(
        write=_write_shop,
        file="events_{}.csv",
        read=lambda history: history,
        rows="events",
        sampling=shop_nights.SAMPLING,
        grows=shop_nights.GROWS,
        continues={"validation_reviews": 0},
        training=shop_nights.MODEL,
    ),
    "criteo": Form(
        write=_write_impressions,
        file="day_{}",
        read=lambda history: history[:1],
        rows="impressions",
        sampling=SAMPLING,
        grows=GROWS,
        continues={},
        training={"model_type": "dlrm", **CASES["dlrm"].training},
    ),
}


@dataclass(frozen=True)
class Night:
    """What a night with some days of history took.

    Attributes:
        read: rows, the new ones among them.
        samples: that trained.
        seconds: of a processor, by step.
        memory: peak in MB, by step.
    """

    history: int
    read: int
    samples: int
    seconds: Mapping[str, float]
    memory: Mapping[str, float]


def measure(form: Form, histories: Sequence[int], thousands: int, seed: int, folder: Path) -> list[Night]:
    """A night for each number of days of history, whose new days are the same."""
    days = max(histories) + _NEW
    form.write(days, thousands, seed, folder / "days")
    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder / 'mlflow.db'}"
    return [_night(form, range(days - _NEW - history, days), seed, folder, str(history)) for history in histories]


def _night(form: Form, days: Sequence[int], seed: int, source: Path, name: str) -> Night:
    """The last one of some days, after a short training on those before it."""
    first, night = source / name / "first", source / name / "night"
    _steps(form, first, days[:-1], source, form.grows, {"max_steps": 20, "seed": seed})
    earlier = {**form.grows, **form.continues, "workflow": first / "tfrecord"}
    new = {"epochs": 1, "patience": 0, "validation_share": 0, "export_epoch": "last"}
    training = {**new, "continue_path": first / "model", "seed": seed}
    history, read = days[:-_NEW], form.read(days[:-_NEW])
    seconds, memory = _steps(form, night, [*read, *days[-_NEW:]], source, earlier, training)
    rows, samples = (open_artifact(night / each).rows for each in ("parquet", "tfrecord"))
    return Night(len(history), rows[form.rows], samples["train"], seconds, memory)


def _steps(
    form: Form,
    folder: Path,
    days: Sequence[int],
    source: Path,
    sampling: Mapping[str, Any],
    training: Mapping[str, Any],
) -> tuple[dict[str, float], dict[str, float]]:
    """Runs the steps on some days; returns what each took."""
    made = {name: f"--{name}={folder / name}" for name in ("raw", "parquet", "tfrecord", "model")}
    files = ",".join(form.file.format(day) for day in days)
    dataset = f"--dataset={form.sampling['dataset']}"
    run_step("download", made["raw"], dataset, f"--source={source / 'days'}", f"--files={files}")
    given = {
        "preprocess": (made["raw"], made["parquet"], *options_of({**form.sampling, **sampling})),
        "tfrecord": (made["parquet"], made["tfrecord"]),
        "train": (made["tfrecord"], made["model"], *options_of({**form.training, **training})),
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
    lines = [f"| days of history | rows read | samples | {', '.join(STEPS)}: processor s | MB |"]
    lines.append("|---:|---:|---:|---:|---:|")
    for night in nights:
        seconds = ", ".join(f"{night.seconds[step]:.1f}" for step in STEPS)
        memory = ", ".join(f"{night.memory[step]:.0f}" for step in STEPS)
        lines.append(f"| {night.history} | {night.read:,} | {night.samples:,} | {seconds} | {memory} |")
    return "\n".join(lines)


def main() -> int:
    options = _parser().parse_args()
    histories = [int(number) for number in options.history.split(",")]
    with tempfile.TemporaryDirectory(prefix="kfrec-night-costs-") as folder:
        print(table(measure(FORMS[options.form], histories, options.thousands, options.seed, Path(folder))))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.night_costs", description=__doc__.partition("\n")[0])
    parser.add_argument("form", nargs="?", choices=FORMS, default="events", help="(%(default)s)")
    parser.add_argument("--history", default="1,3,10,30", metavar="DAYS", help="separated by commas (%(default)s)")
    parser.add_argument("--thousands", type=int, default=20, metavar="N", help="rows of a day (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
