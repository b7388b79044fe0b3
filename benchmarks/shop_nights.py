"""Nights of SASRec in a shop whose items come and go: ``python -m benchmarks.shop_nights [--nights N] [--seeds N]``.

Each evening four ways of training have the events of all days so far; ``kfrec recommend --all`` lists 10 items in stock
for each customer, and the next day tells HR@10: the share of its customers of whose choices, items that they have never
seen, one is in their list. The cost is that of preprocess, tfrecord and train, in seconds of a processor, which other
work on the machine does not change.

    full          everything trains, with a new vocabulary
    frozen        everything trains, with the first night's vocabulary
    incremental   the events since the last night continue its weights and moments; the vocabulary grows
    no admission  the same, with the first night's vocabulary

All share the first night.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from benchmarks.intervals import interval_text
from benchmarks.nights import CONTINUE, FROZEN, FULL, NO_ADMISSION, WAYS
from benchmarks.process import processor_seconds
from benchmarks.shop import found_in, nights, run_command
from benchmarks.trained import options_of, run_step
from components.datasets.events.shop import DAY, KINDS, OPENING, Shelf, ShopEvents, make_shelf, simulate

TOP, CATEGORIES = 10, 20
_NEVER = 10**9
SAMPLING: Mapping[str, Any] = {
    "dataset": "events", "negatives": "none", "training_targets": "windows", "max_sequence_length": 30,
    "history_ends": "day", "test_reviews": 0.005, "out_of_vocabulary_limit": 1.0,
}  # fmt: skip
MODEL: Mapping[str, Any] = {
    "model_type": "sasrec", "task": "next_item", "item_dim": 32, "attention_layers": 1, "feed_forward_dim": 64,
    "state_dropout": 0.2, "global_batch_size": 128,
}  # fmt: skip
# A training on everything ends by its validation samples; one on a day has too few of them. SASRec's defaults: it first
# learns what is popular, and then its validation metric stands still for some epochs.
_EVERYTHING: Mapping[str, Any] = {"epochs": 100, "patience": 20}
GROWS: Mapping[str, Any] = {"vocabulary_slack": 0.5}


@dataclass(frozen=True)
class Night:
    """The result of a way of training in a night.

    Attributes:
        users: customers with choices, int64 ``[n]``.
        hits: whether one is in the list of each, float64 ``[n]``.
        seconds: of a processor.
    """

    users: np.ndarray
    hits: np.ndarray
    seconds: float


def measure(
    first: int,
    count: int,
    users: int,
    items: int,
    seed: int,
    folder: Path,
    epochs: int,
    replay_share: float,
    season: float = 0.0,
    compared: int | None = None,
    **training: Any,
) -> dict[str, list[Night]]:
    """The nights of each way, from the second one on.

    Args:
        first: days that the first night knows.
        count: nights after it.
        epochs: of a training on what is new.
        replay_share: see ``components.datasets.definition.Growing``.
        season: of the simulation.
        compared: the newest nights, which alone have results; ``None`` is all. Before them, only the ways that
            continue train.
        training: parameters of the train step, in place of ``MODEL``.
    """
    days, rng = first + count + 1, np.random.default_rng(seed)
    shelf = make_shelf(items, CATEGORIES, days, rng)
    events = simulate(shelf, users, days, rng, season)
    write_days(events, shelf, folder / "days", days)
    new = {"epochs": epochs, "patience": 0, "validation_share": 0, "export_epoch": "last"}

    def train(name: str, day: int, sampling: Mapping[str, Any], start: Mapping[str, Any]) -> float:
        made = {each: folder / name / each for each in ("raw", "parquet", "tfrecord", "model")}
        files = ",".join(f"events_{number}.csv" for number in range(day))
        run_step(
            "download", f"--raw={made['raw']}", "--dataset=events", f"--source={folder / 'days'}", f"--files={files}"
        )
        began = processor_seconds()
        run_step(
            "preprocess", f"--raw={made['raw']}", f"--parquet={made['parquet']}", *options_of({**SAMPLING, **sampling})
        )
        run_step("tfrecord", f"--parquet={made['parquet']}", f"--tfrecord={made['tfrecord']}")
        given = options_of({**MODEL, **training, **start, "seed": seed})
        run_step("train", f"--tfrecord={made['tfrecord']}", f"--model={made['model']}", *given)
        return processor_seconds() - began

    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder / 'mlflow.db'}"
    train("first", first, GROWS, _EVERYTHING)
    found: dict[str, list[Night]] = {way: [] for way in WAYS}
    last = dict.fromkeys(CONTINUE, folder / "first")
    for night, chosen in nights(events, shelf, users, range(first + 1, days)):
        pc.write_csv(pa.table({"item": np.flatnonzero(night.stock)}), folder / f"stock_{night.day}.csv")
        judged = compared is None or night.day >= days - compared
        for way in WAYS if judged else CONTINUE:
            name = f"{way} {night.day}".replace(" ", "-")
            if way == FULL:
                seconds = train(name, night.day, {}, _EVERYTHING)
            elif way == FROZEN:
                seconds = train(name, night.day, {"workflow": str(folder / "first" / "tfrecord")}, _EVERYTHING)
            else:
                kept = {"admit_after": _NEVER, "evict_share": 0} if way == NO_ADMISSION else {}
                earlier = {
                    "workflow": str(last[way] / "tfrecord"),
                    "replay_share": replay_share,
                    "validation_reviews": 0,
                }
                start = {**new, "continue_path": str(last[way] / "model")}
                seconds = train(name, night.day, {**GROWS, **kept, **earlier}, start)
                last[way] = folder / name
            if not judged:
                continue
            lists = _lists(folder / name, folder / f"stock_{night.day}.csv", users)
            hits = found_in(lists, chosen[0])
            found[way].append(Night(np.flatnonzero(chosen[0].any(1)), hits, seconds))
            print(f"seed {seed}, day {night.day}, {way}: HR@{TOP} {hits.mean():.4f}, {seconds:.0f} s", file=sys.stderr)
    return found


def write_days(events: ShopEvents, shelf: Shelf, folder: Path, days: int) -> None:
    """A table for each day."""
    folder.mkdir(parents=True)
    of_day = (events.time // 1000 - OPENING) // DAY
    every = pa.table(
        {
            "user": events.user,
            "item": events.item,
            "timestamp": events.time,
            "event": np.array(KINDS)[events.kind],
            "category": shelf.category[events.item],
        }
    )
    for day in range(days):
        pc.write_csv(every.filter(pa.array(of_day == day)), folder / f"events_{day}.csv")


def _lists(folder: Path, stock: Path, users: int) -> np.ndarray:
    """The items of each customer's list, -1 where it ends, ``[users, TOP]``."""
    output = folder / "lists.parquet"
    run_command("recommend", "--all", f"--model={folder / 'model'}", f"--events={folder / 'raw'}", f"--top={TOP}",
                f"--candidates={stock}", f"--output={output}")  # fmt: skip
    written = pq.read_table(output, columns=["user", "rank", "item"])
    user, rank, item = (written[name].cast(pa.int64()).to_numpy() for name in written.column_names)
    lists = np.full((users, TOP), -1)
    lists[user, rank - 1] = item
    return lists


def table(by_seed: Sequence[Mapping[str, Sequence[Night]]]) -> str:
    """A Markdown table with one row per way. Intervals are of the bootstrap over customers; differences are between the
    lists of one customer on one night."""
    lines = [f"| way | HR@{TOP} | less that of full | less that of frozen | processor s a night | cost |"]
    lines.append("|---|---:|---:|---:|---:|---:|")

    def hits(way: str) -> np.ndarray:
        return np.concatenate([night.hits for found in by_seed for night in found[way]])

    users = np.concatenate(
        [night.users + number * _NEVER for number, found in enumerate(by_seed) for night in found[FULL]]
    )

    def told(values: np.ndarray, sign: str = "") -> str:
        return interval_text(values, users, sign, digits=4)

    def seconds(way: str) -> float:
        return mean(night.seconds for found in by_seed for night in found[way])

    for way in WAYS:
        against = [told(hits(way) - hits(other), "+") if way != other else "" for other in (FULL, FROZEN)]
        cost = seconds(way) / seconds(FULL)
        lines.append(f"| {way} | {told(hits(way))} | {against[0]} | {against[1]} | {seconds(way):.0f} | {cost:.2f} |")
    return "\n".join(lines)


def main() -> int:
    options = _parser().parse_args()
    by_seed = []
    for seed in range(options.seed, options.seed + options.seeds):
        with tempfile.TemporaryDirectory(prefix="kfrec-shop-nights-") as folder:
            found = measure(options.first, options.nights, options.users, options.items, seed, Path(folder),
                            options.epochs, options.replay_share, options.season, options.compared)  # fmt: skip
        by_seed.append(found)
        print(table(by_seed), flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shop_nights", description=__doc__.partition("\n")[0])
    parser.add_argument("--first", type=int, default=12, metavar="N", help="days of the first night (%(default)s)")
    parser.add_argument("--nights", type=int, default=4, metavar="N", help="nights after it (%(default)s)")
    parser.add_argument("--compared", type=int, metavar="N", help="the newest nights, with results (all)")
    parser.add_argument("--users", type=int, default=2000, metavar="N", help="customers (%(default)s)")
    parser.add_argument("--items", type=int, default=800, metavar="N", help="items (%(default)s)")
    parser.add_argument("--epochs", type=int, default=3, metavar="N", help="of what is new (%(default)s)")
    parser.add_argument("--replay-share", type=float, default=0.5, metavar="SHARE", help="(%(default)s)")
    parser.add_argument(
        "--season", type=float, default=0.0, metavar="X", help="of categories, in utility (%(default)s)"
    )
    parser.add_argument("--seeds", type=int, default=2, metavar="N", help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first one (%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
