"""Lists with items that no training sample has: ``python -m benchmarks.new_items [--seeds N] [--data FOLDER]``.

SASRec trains with ids of items alone, with their categories, and with their columns. ``kfrec recommend --all`` then
lists 10 items for each customer; the file of candidates tells the category and the columns of each. HR@10 is the share
of customers of whose choices, items that they have never seen, one is in their list. In one column each, choices are

- new: items that the vocabulary of the training lacks, among all candidates;
- new alone: the same, where only new items are candidates;
- known: the other choices, among all candidates;
- all: both.

The items and choices are of the synthetic shop, whose first days train; items that come later are new. With --data they
are of real data: a fifth of the items, drawn at random, is held back from the training, another fifth with each seed.
The choice of a user is the last event of such an item after three events of others; the user's later events are left
out. FOLDER has reviews_*.json.gz and meta_*.json.gz of Amazon, or ml-100k.inter and ml-100k.item of RecBole.

The popularity in the category is that of 7 days, or of the training, times the share that the category has in the
customer's history. The model of ids alone lists new items by it in their category, those with columns or categories by
their vectors, and by the same popularity.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gzip
import json
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

from benchmarks.intervals import interval_text
from benchmarks.shop import Lists, found_in, nights, run_command
from benchmarks.trained import options_of, run_step
from components.datasets.events.shop import DAY, KINDS, OPENING, make_shelf, simulate, titles_of

TOP, CATEGORIES = 10, 20
POPULAR, WITHOUT = "popularity in the category", "sasrec, new items by their popularity in the category"
COLUMNS = ("new", "new alone", "known", "all")
# One of so many items is held back.
_HELD_BACK, _BEFORE = 5, 3
_SAMPLING: Mapping[str, Any] = {
    "dataset": "events", "negatives": "none", "training_targets": "windows", "max_sequence_length": 30,
    "history_ends": "day", "test_reviews": 0.005,
}  # fmt: skip
_MODEL: Mapping[str, Any] = {
    "model_type": "sasrec", "task": "next_item", "item_dim": 32, "attention_layers": 1, "feed_forward_dim": 64,
    "state_dropout": 0.2, "global_batch_size": 128, "lr": 0.004, "epochs": 25, "patience": 5,
}  # fmt: skip
_REAL: Mapping[str, Any] = {
    "dataset": "events", "negatives": "none", "training_targets": "windows", "max_sequence_length": 20,
    "history_ends": "event", "test_reviews": 0.005, "shortest_sequence_for_user": 3,
}  # fmt: skip
# More than the customers of a shop.
_SEED = 10**9


# For each way, of each day, the customers, int64 ``[n]``, and whether a choice is in their list, float64
# ``[n, len(COLUMNS)]``, nan without a choice.
Found = dict[str, list[tuple[np.ndarray, np.ndarray]]]


def measure_shop(options: argparse.Namespace, seed: int, folder: Path) -> Found:
    """What the lists of each way find on the days after the training."""
    days, rng, users = options.first + options.days, np.random.default_rng(seed), options.users
    shelf = make_shelf(options.items, CATEGORIES, days, rng)
    events = simulate(shelf, users, days, rng)
    of_day = (events.time // 1000 - OPENING) // DAY
    items = pa.table(
        {
            "item": np.arange(options.items),
            "category": shelf.category,
            "price": shelf.price,
            "title": titles_of(shelf, np.random.default_rng([seed, 4])),
        }
    )
    table = pa.table(
        {"user": events.user, "item": events.item, "timestamp": events.time, "event": np.array(KINDS)[events.kind]}
    )
    (folder / "days").mkdir()
    for day in range(days):
        _write(table.filter(pa.array(of_day == day)), items, folder / "days" / f"{day}.csv")
    ways = _trained(folder, range(options.first), _SAMPLING, options, seed)
    is_new = _is_new(folder, options.items)
    found: Found = {way: [] for way in (POPULAR, *ways)}
    for night, chosen in nights(events, shelf, users, range(options.first, days)):
        newest = night.events.time >= (OPENING + (night.day - 7) * DAY) * 1000
        counts = np.bincount(night.events.item[newest], minlength=options.items)
        columns = [chosen[0] & is_new, chosen[0] & is_new, chosen[0] & ~is_new, chosen[0]]
        _judge(found, folder, range(night.day), items, night.stock, is_new, night.seen, counts, columns, seed)
    return found


def measure_held_back(options: argparse.Namespace, seed: int, folder: Path) -> Found:
    """What the lists of each way find of items that were held back."""
    events, items = _movies(options.data) if list(options.data.glob("*.inter")) else _reviews(options.data)
    user, item, time = (events[name].to_numpy() for name in ("user", "item", "timestamp"))
    fold = np.random.default_rng(0).permutation(len(items)) % _HELD_BACK
    is_held = fold[item] == seed % _HELD_BACK
    order = np.lexsort((item, time, user))
    users = int(user.max()) + 1
    target, until = np.full(users, -1), np.full(users, np.iinfo(np.int64).max)
    known = np.zeros(users, np.int64)
    for place in order:
        if not is_held[place]:
            known[user[place]] += 1
        elif known[user[place]] >= _BEFORE:
            target[user[place]], until[user[place]] = item[place], time[place]
    trains = ~is_held & (time < until[user])
    (folder / "days").mkdir()
    _write(events.filter(pa.array(trains)), items, folder / "days" / "0.csv")
    ways = _trained(folder, [0], _REAL, options, seed)
    seen = np.zeros((users, len(items)), bool)
    seen[user[trains], item[trains]] = True
    # Of a user with too few events before the choice nothing is asked.
    asked = (target >= 0) & (seen.sum(1) >= _BEFORE)
    chosen = np.zeros_like(seen)
    chosen[np.flatnonzero(asked), target[asked]] = True
    counts = np.bincount(item[trains], minlength=len(items))
    stock, is_new = np.bincount(item, minlength=len(items)) > 0, np.asarray(fold == seed % _HELD_BACK)
    nothing = np.zeros_like(chosen)
    found: Found = {way: [] for way in (POPULAR, *ways)}
    _judge(found, folder, [0], items, stock, is_new, seen, counts, [chosen, chosen, nothing, nothing], 0)
    return found


def _trained(
    folder: Path, days: Sequence[int], sampling: Mapping[str, Any], options: argparse.Namespace, seed: int
) -> list[str]:
    """The ways of SASRec; the model of the way number N is in the folder model_N."""
    raw, parquet, records = (folder / name for name in ("raw", "parquet", "tfrecord"))
    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder / 'mlflow.db'}"
    files = ",".join(f"{day}.csv" for day in days)
    run_step("download", f"--raw={raw}", "--dataset=events", f"--source={folder / 'days'}", f"--files={files}")
    given = options_of({**sampling, "item_columns": options.columns})
    run_step("preprocess", f"--raw={raw}", f"--parquet={parquet}", *given)
    run_step("tfrecord", f"--parquet={parquet}", f"--tfrecord={records}")
    every: dict[str, Mapping[str, Any]] = {WITHOUT: {"item_features": "none"}} | {
        f"sasrec with {kind}, id_dropout={share:g}": {"item_features": kind, "id_dropout": share}
        for share in options.id_dropout
        for kind in ("categories", "columns")
    }
    ways = {way: settings for way, settings in every.items() if settings["item_features"] in options.features}
    chosen = dict(each.split("=", 1) for each in options.set)
    for number, settings in enumerate(ways.values()):
        model = options_of({**_MODEL, **chosen, **settings, "seed": seed})
        run_step("train", f"--tfrecord={records}", f"--model={folder / f'model_{number}'}", *model)
    return list(ways)


def _judge(
    found: Found,
    folder: Path,
    days: Sequence[int],
    items: pa.Table,
    stock: np.ndarray,
    is_new: np.ndarray,
    seen: np.ndarray,
    counts: np.ndarray,
    chosen: Sequence[np.ndarray],
    seed: int,
) -> None:
    """Adds what the lists of each way find.

    Args:
        days: files of the events up to now.
        items: of int ids, their category and columns.
        stock: bool ``[items]``.
        is_new: bool ``[items]``.
        seen: bool ``[users, items]``.
        counts: recent events of the items, ``[items]``.
        chosen: bool ``[users, items]``, by COLUMNS.
        seed: tells the customers of several shops apart.
    """
    candidates = (stock, stock & is_new)
    visitors = np.flatnonzero(chosen[0].any(1) | chosen[-1].any(1))
    for number, way in enumerate(found):
        lists = []
        for each in candidates:
            pc.write_csv(items.filter(pa.array(each)), folder / "stock.csv")
            lists.append(
                _popular(items, each, seen, counts) if way == POPULAR else _lists(folder, number - 1, days, len(seen))
            )
        hits = np.full((len(seen), len(COLUMNS)), np.nan)
        for column, each in enumerate(chosen):
            hits[each.any(1), column] = found_in(lists[column == 1], each)
        found[way].append((seed * _SEED + visitors, hits[visitors]))
        told = ", ".join(f"{name} {np.nanmean(hits[:, place]):.4f}" for place, name in enumerate(COLUMNS)
                         if np.isfinite(hits[:, place]).any())  # fmt: skip
        print(f"seed {seed}, day {days[-1] + 1}, {way}: {told}", file=sys.stderr)


def _popular(items: pa.Table, stock: np.ndarray, seen: np.ndarray, counts: np.ndarray) -> Lists:
    _, category = np.unique(items["category"].to_numpy(zero_copy_only=False).astype(str), return_inverse=True)
    share = counts + 0.5
    share = share / np.bincount(category, share * stock)[category]
    of_user = seen @ np.eye(category.max() + 1)[category]
    scores = np.where(stock & ~seen, (of_user + 1e-3)[:, category] * share, -np.inf)
    drawn = np.random.default_rng(0).permutation(len(stock))
    return drawn[np.argsort(-scores[:, drawn], axis=1, kind="stable")[:, :TOP]]


def _lists(folder: Path, number: int, days: Sequence[int], users: int) -> Lists:
    """The items of each customer's list, -1 where it ends."""
    output = folder / "lists.parquet"
    events = [f"--events={folder / 'days' / f'{day}.csv'}" for day in days]
    run_command("recommend", "--all", f"--model={folder / f'model_{number}'}", *events, f"--top={TOP}",
                f"--candidates={folder / 'stock.csv'}", f"--output={output}")  # fmt: skip
    written = pq.read_table(output, columns=["user", "rank", "item"])
    user, rank, item = (written[name].cast(pa.int64()).to_numpy() for name in written.column_names)
    lists = np.full((users, TOP), -1)
    lists[user, rank - 1] = item
    return lists


def _write(events: pa.Table, items: pa.Table, path: Path) -> None:
    """Writes events with what is known of their items."""
    for name in items.column_names[1:]:
        events = events.append_column(name, items[name].take(events["item"]))
    pc.write_csv(events, path)


def _is_new(folder: Path, items: int) -> np.ndarray:
    known = pq.read_table(folder / "tfrecord" / "vocabulary" / "item.parquet", columns=["value"])["value"]
    is_new = np.ones(items, bool)
    is_new[np.array(known.to_pylist(), np.int64)] = False
    return is_new


def _reviews(folder: Path) -> tuple[pa.Table, pa.Table]:
    """Events and items of Amazon; the file of reviews may end in the middle."""
    known, rows = {}, []
    with gzip.open(next(folder.glob("meta_*.json.gz")), "rt") as file:
        for line in file:
            told = ast.literal_eval(line)
            known[told["asin"]] = told
    with contextlib.suppress(EOFError), gzip.open(next(folder.glob("reviews_*.json.gz")), "rt") as file:
        for line in file:
            with contextlib.suppress(ValueError):
                each = json.loads(line)
                rows.append((each["reviewerID"], each["asin"], each["unixReviewTime"]))
    items = [known.get(name, {}) for name in dict.fromkeys(item for _, item, _ in rows)]
    told = {
        name: [" ".join(str(each.get(name, "")).split()) for each in items]
        for name in ("title", "description", "brand")
    }
    paths = [(each.get("categories") or [["none"]]) for each in items]
    return _events(rows), pa.table(
        {
            "item": np.arange(len(items)),
            "category": [path[0][-1] for path in paths],
            "price": [each.get("price") for each in items],
            "paths": [" ".join("".join(filter(str.isalnum, part)) for path in each for part in path) for each in paths],
            **told,
        }
    )


def _movies(folder: Path) -> tuple[pa.Table, pa.Table]:
    """Events and items of MovieLens 100K in the files of RecBole."""
    lines = {
        suffix: [line.split("\t") for line in next(folder.glob(f"*.{suffix}")).read_text().splitlines()[1:]]
        for suffix in ("inter", "item")
    }
    rows = [(user, item, int(float(time))) for user, item, _, time in lines["inter"]]
    known = {item: rest for item, *rest in lines["item"]}
    items = [known[name] for name in dict.fromkeys(item for _, item, _ in rows)]
    titles, years, genres = map(list, zip(*items, strict=True))
    about = {"item": np.arange(len(items)), "category": genres, "title": titles, "year": years, "genres": genres}
    return _events(rows), pa.table(about)


def _events(rows: Sequence[tuple[str, str, int]]) -> pa.Table:
    """Users and items as numbers, in the order of their first rows."""
    user, item, time = (pa.array(column) for column in zip(*rows, strict=True))
    numbers = {"user": user.dictionary_encode().indices, "item": item.dictionary_encode().indices, "timestamp": time}
    return pa.table({name: values.cast(pa.int64()) for name, values in numbers.items()})


def table(by_seed: Sequence[Found]) -> str:
    """A Markdown table with a row for each way, and a column for each of COLUMNS that has choices. Intervals are of the
    bootstrap over customers; differences are between the lists of one customer on one day."""

    def joined(way: str) -> tuple[np.ndarray, np.ndarray]:
        users, hits = zip(*(day for found in by_seed for day in found[way]), strict=True)
        return np.concatenate(users), np.concatenate(hits)

    base_is = next(way for way in by_seed[0] if "categories" in way)
    users, base = joined(base_is)
    places = np.flatnonzero(np.isfinite(base).any(0)).tolist()
    names = [COLUMNS[place] for place in places]
    counts = ", ".join(f"{COLUMNS[place]} {int(np.isfinite(base[:, place]).sum()):,}" for place in places)
    heads = [*(f"{name} HR@{TOP}" for name in names), *(f"{name}, less with categories" for name in names)]
    lines = [
        f"Lists of customers with choices: {counts}\n",
        f"| lists | {' | '.join(heads)} |",
        "|---" * len(heads) + "|---|",
    ]
    for way in by_seed[0]:
        hits = joined(way)[1]
        cells = [interval_text(hits[:, place], users) for place in places]
        over = hits - base
        cells += [interval_text(over[:, place], users, "+") if way != base_is else "" for place in places]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    options = _parser().parse_args()
    by_seed = []
    for seed in range(options.seed, options.seed + options.seeds):
        with tempfile.TemporaryDirectory(prefix="kfrec-new-items-") as folder:
            measure = measure_held_back if options.data else measure_shop
            by_seed.append(measure(options, seed, Path(folder)))
        print(table(by_seed), flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.new_items", description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="real data in place of the shop")
    parser.add_argument("--columns", default="title,price", metavar="A,B,...", help="item_columns (%(default)s)")
    parser.add_argument("--features", default="none,categories,columns", metavar="A,B,...", help="(%(default)s)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the training")
    parser.add_argument("--first", type=int, default=20, metavar="N", help="days that train (%(default)s)")
    parser.add_argument("--days", type=int, default=3, metavar="N", help="days after them (%(default)s)")
    parser.add_argument("--users", type=int, default=3000, metavar="N", help="customers (%(default)s)")
    parser.add_argument("--items", type=int, default=1000, metavar="N", help="items (%(default)s)")
    parser.add_argument("--id-dropout", type=_numbers, default="0.3", metavar="A,B,...", help="(%(default)s)")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first one (%(default)s)")
    return parser


def _numbers(text: str) -> list[float]:
    return [float(each) for each in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
