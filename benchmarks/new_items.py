"""Lists with items that no training sample has: ``python -m benchmarks.new_items [--seeds N] [--id-dropout A,B,...]``.

SASRec trains once on a synthetic shop's first days, with and without the categories of items in their vectors. On each
day after that ``kfrec recommend --all`` lists 10 items in stock for each customer, by the histories up to the evening
before; the file of candidates tells the category of each. The day itself tells HR@10: the share of its customers of
whose choices, items that they have never seen, one is in their list. In one column each, choices are

- new: items that the vocabulary of the training lacks;
- known: the others;
- all: both.

The model without categories lists new items by how popular they are in their category since the training; those with
categories by the vector of the category, and by the same popularity.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from benchmarks.shop import Lists, Night, found_in, nights, run_command
from benchmarks.trained import run_step
from components.datasets.events.shop import DAY, KINDS, OPENING, make_shelf, simulate
from components.metrics import mean_interval

TOP, CATEGORIES = 10, 20
POPULAR, WITHOUT = "popularity of 7 days", "sasrec, new items by their popularity in the category"
COLUMNS = ("new", "known", "all")
_SAMPLING: Mapping[str, Any] = {
    "dataset": "events", "negatives": "none", "training_targets": "windows", "max_sequence_length": 30,
    "history_ends": "day", "test_reviews": 0.005,
}  # fmt: skip
_MODEL: Mapping[str, Any] = {
    "model_type": "sasrec", "task": "next_item", "item_dim": 32, "attention_layers": 1, "feed_forward_dim": 64,
    "state_dropout": 0.2, "global_batch_size": 128, "lr": 0.004, "epochs": 25, "patience": 5,
}  # fmt: skip
# More than the customers of a shop.
_SEED = 10**9


def measure(
    first: int, count: int, users: int, items: int, seed: int, dropouts: Sequence[float], folder: Path
) -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
    """What the lists of each way find on the days after the training.

    Args:
        first: days that train.
        count: days after them.
        dropouts: values of ``id_dropout``.

    Returns:
        For each way and day the customers, int64 ``[n]``, and whether a choice is in their list, float64 ``[n, 3]`` by
        COLUMNS, nan without a choice.
    """
    days, rng = first + count, np.random.default_rng(seed)
    shelf = make_shelf(items, CATEGORIES, days, rng)
    events = simulate(shelf, users, days, rng)
    of_day = (events.time // 1000 - OPENING) // DAY
    table = pa.table(
        {
            "user": events.user,
            "item": events.item,
            "timestamp": events.time,
            "event": np.array(KINDS)[events.kind],
            "category": shelf.category[events.item],
        }
    )
    (folder / "days").mkdir()
    for day in range(days):
        pc.write_csv(table.filter(pa.array(of_day == day)), folder / "days" / f"events_{day}.csv")
    raw, parquet, records = (folder / name for name in ("raw", "parquet", "tfrecord"))
    known = ",".join(f"events_{day}.csv" for day in range(first))
    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder / 'mlflow.db'}"
    run_step("download", f"--raw={raw}", "--dataset=events", f"--source={folder / 'days'}", f"--files={known}")
    run_step("preprocess", f"--raw={raw}", f"--parquet={parquet}", *_options(_SAMPLING))
    run_step("tfrecord", f"--parquet={parquet}", f"--tfrecord={records}")
    ways: dict[str, Mapping[str, Any]] = {WITHOUT: {}} | {
        f"sasrec with categories, id_dropout={share:g}": {"item_features": "categories", "id_dropout": share}
        for share in dropouts
    }
    for number, settings in enumerate(ways.values()):
        given = _options({**_MODEL, **settings, "seed": seed})
        run_step("train", f"--tfrecord={records}", f"--model={folder / f'model_{number}'}", *given)
    in_vocabulary = pq.read_table(records / "vocabulary" / "item.parquet", columns=["value"])["value"]
    is_new = np.ones(items, bool)
    is_new[np.array(in_vocabulary.to_pylist(), np.int64)] = False
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {way: [] for way in (POPULAR, *ways)}
    for night, chosen in nights(events, shelf, users, range(first, days)):
        stock = np.flatnonzero(night.stock)
        pc.write_csv(pa.table({"item": stock, "category": shelf.category[stock]}), folder / "stock.csv")
        columns = np.stack([chosen[0] & is_new, chosen[0] & ~is_new, chosen[0]])
        for number, way in enumerate(found):
            lists = _popular(night) if way == POPULAR else _lists(folder, f"model_{number - 1}", night)
            hits = np.full((users, len(COLUMNS)), np.nan)
            for column, each in enumerate(columns):
                hits[each.any(1), column] = found_in(lists, each)
            visitors = np.flatnonzero(chosen[0].any(1))
            found[way].append((seed * _SEED + visitors, hits[visitors]))
            told = ", ".join(f"{name} {np.nanmean(hits[:, place]):.4f}" for place, name in enumerate(COLUMNS))
            print(f"seed {seed}, day {night.day}, {way}: {told}", file=sys.stderr)
    return found


def _popular(night: Night) -> Lists:
    newest = night.events.time >= (OPENING + (night.day - 7) * DAY) * 1000
    counts = np.bincount(night.events.item[newest], minlength=len(night.stock)).astype(np.float64)
    scores = np.where(night.stock & ~night.seen, counts, -np.inf)
    return np.argsort(-scores, axis=1, kind="stable")[:, :TOP]


def _lists(folder: Path, model: str, night: Night) -> Lists:
    """The items of each customer's list, -1 where it ends."""
    output = folder / "lists.parquet"
    events = [f"--events={folder / 'days' / f'events_{day}.csv'}" for day in range(night.day)]
    run_command("recommend", "--all", f"--model={folder / model}", *events, f"--top={TOP}",
                f"--candidates={folder / 'stock.csv'}", f"--output={output}")  # fmt: skip
    written = pq.read_table(output, columns=["user", "rank", "item"])
    user, rank, item = (written[name].cast(pa.int64()).to_numpy() for name in written.column_names)
    lists = np.full((len(night.seen), TOP), -1)
    lists[user, rank - 1] = item
    return lists


def _options(values: Mapping[str, Any]) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items()]


def table(by_seed: Sequence[Mapping[str, Sequence[tuple[np.ndarray, np.ndarray]]]]) -> str:
    """A Markdown table with a row for each way. Intervals are of the bootstrap over customers; differences are between
    the lists of one customer on one day."""

    def joined(way: str) -> tuple[np.ndarray, np.ndarray]:
        users, hits = zip(*(day for found in by_seed for day in found[way]), strict=True)
        return np.concatenate(users), np.concatenate(hits)

    def told(values: np.ndarray, users: np.ndarray, sign: str = "") -> str:
        has = np.isfinite(values)
        interval = mean_interval(values[has], clusters=users[has])
        return f"{interval.estimate:{sign}.3f} ({interval.low:{sign}.3f} to {interval.high:{sign}.3f})"

    (users, base), base_is = joined(WITHOUT), "without categories"
    counts = ", ".join(f"{name} {int((~np.isnan(base[:, place])).sum()):,}" for place, name in enumerate(COLUMNS))
    lines = [
        f"Lists of customers with choices: {counts}\n",
        f"| lists | {' | '.join(f'{name} HR@{TOP}' for name in COLUMNS)} | new, less {base_is} | all, less {base_is} |",
        "|---|---|---|---|---|---|",
    ]
    for way in by_seed[0]:
        hits = joined(way)[1]
        cells = [told(hits[:, place], users) for place in range(len(COLUMNS))]
        cells += [told(hits[:, place] - base[:, place], users, "+") if way != WITHOUT else "" for place in (0, 2)]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    options = _parser().parse_args()
    by_seed = []
    for seed in range(options.seed, options.seed + options.seeds):
        with tempfile.TemporaryDirectory(prefix="kfrec-new-items-") as folder:
            by_seed.append(
                measure(options.first, options.days, options.users, options.items, seed, options.id_dropout,
                        Path(folder))
            )  # fmt: skip
        print(table(by_seed), flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.new_items", description=__doc__.partition("\n")[0])
    parser.add_argument("--first", type=int, default=20, metavar="N", help="days that train (%(default)s)")
    parser.add_argument("--days", type=int, default=3, metavar="N", help="days after them (%(default)s)")
    parser.add_argument("--users", type=int, default=3000, metavar="N", help="customers (%(default)s)")
    parser.add_argument("--items", type=int, default=1000, metavar="N", help="items (%(default)s)")
    parser.add_argument("--id-dropout", type=_numbers, default="0.3", metavar="A,B,...", help="(%(default)s)")
    parser.add_argument("--seeds", type=int, default=2, metavar="N", help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first one (%(default)s)")
    return parser


def _numbers(text: str) -> list[float]:
    return [float(each) for each in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
