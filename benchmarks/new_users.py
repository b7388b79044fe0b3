"""Lists for users without a history: ``python -m benchmarks.new_users [--movielens FOLDER] [--seeds N]``.

SASRec trains without and with what is known of users, as ``known_columns``. ``kfrec recommend --users`` then lists 10
items for each user who is new, of whom it is told these columns alone. The users are those of

- the synthetic shop, whose first days train; customers of the days after them who were never seen before are new, and
  say which category interests them;
- MovieLens 100K, in the files ml-100k.inter and .user of RecBole: a fifth of the users, drawn at random, is held back
  from the training, another fifth with each seed. Known are age, gender and occupation.

Two figures judge a list: ``chosen``, the share of its items that the user chose, in the shop on the first day; and
``first``, whether the user's first choice is in it. Beside SASRec stand the popularity in the training, in the shop of
7 days, and that in the category of interest, or among users of the same gender and about the same age.
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
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from benchmarks.intervals import interval_text
from benchmarks.shop import Lists, run_command
from benchmarks.trained import options_of, run_step
from components.datasets.events.shop import DAY, OPENING, Customers, make_shelf

TOP, FOLDS, YEARS = 10, 5, 5
CATEGORIES, CUSTOMERS, ITEMS, FIRST, DAYS = 20, 3000, 1000, 20, 5
POPULAR, ALIKE, WITHOUT, WITH = "popularity", "popularity by what is known", "sasrec", "sasrec with known columns"
COLUMNS = ("chosen", "first")
_SAMPLING: Mapping[str, Any] = {
    "dataset": "events", "negatives": "none", "training_targets": "windows", "max_sequence_length": 50,
    "split": "last_item",
}  # fmt: skip
_MODEL: Mapping[str, Any] = {
    "model_type": "sasrec", "task": "next_item", "item_dim": 32, "attention_layers": 1, "feed_forward_dim": 64,
    "state_dropout": 0.2, "global_batch_size": 256, "lr": 0.004, "epochs": 15, "patience": 0, "export_epoch": "last",
}  # fmt: skip

# Of each way, for the users who are new, float64 ``[n, len(COLUMNS)]``.
Found = dict[str, np.ndarray]


@dataclass(frozen=True)
class Newcomers:
    """Events that train, and users who are new.

    Attributes:
        events: a row each, with the known columns.
        users: ids and known columns, a row each.
        known: parameters of the preprocess step that name the columns.
        stock: places of the items that may be listed.
        scores: popularity, and that by what is known, ``[n, items]`` each.
        chosen: whether each user chose each item, bool ``[n, items]``.
        first: the first choice of each, ``[n]``.
    """

    events: pa.Table
    users: pa.Table
    known: Mapping[str, str]
    stock: np.ndarray
    scores: tuple[np.ndarray, np.ndarray]
    chosen: np.ndarray
    first: np.ndarray


def shop(seed: int) -> Newcomers:
    """Customers who come to the synthetic shop after its first days."""
    days, rng = FIRST + DAYS, np.random.default_rng(seed)
    shelf = make_shelf(ITEMS, CATEGORIES, days, rng)
    customers = Customers(shelf, CUSTOMERS, days, rng)
    events = customers.events()
    of_day = (events.time // 1000 - OPENING) // DAY
    users, places = np.unique(events.user, return_index=True)
    first_day = of_day[places]
    is_new = first_day >= FIRST
    table = pa.table(
        {
            "user": events.user,
            "item": events.item,
            "timestamp": events.time,
            "interest": customers.interest[events.user],
        }
    )
    chosen = np.zeros((CUSTOMERS, ITEMS), bool)
    comes = np.isin(events.user, users[is_new])
    day = np.zeros(CUSTOMERS, np.int64)
    day[users] = first_day
    on_first = comes & (of_day == day[events.user])
    chosen[events.user[on_first], events.item[on_first]] = True
    newest = (of_day >= FIRST - 7) & (of_day < FIRST)
    counts = np.bincount(events.item[newest], minlength=ITEMS).astype(np.float64)
    interest = customers.interest[users[is_new]]
    return Newcomers(
        table.filter(pa.array(of_day < FIRST)),
        pa.table({"user": users[is_new], "interest": interest}),
        {"event_categories": "interest", "known_columns": "interest"},
        shelf.for_sale(FIRST),
        (
            np.broadcast_to(counts, (len(interest), ITEMS)),
            counts * np.where(interest[:, np.newaxis] == shelf.category, 1, 1e-3),
        ),
        chosen[users[is_new]],
        events.item[places[is_new]],
    )


def movielens(folder: Path, seed: int) -> Newcomers:
    """Users of MovieLens 100K who are held back."""
    ratings, users = (
        pc.read_csv(folder / f"ml-100k.{name}", parse_options=pc.ParseOptions(delimiter="\t", quote_char=False))
        for name in ("inter", "user")
    )
    ratings, users = (
        table.rename_columns([name.partition(":")[0] for name in table.column_names]) for table in (ratings, users)
    )
    places = {name: place for place, name in enumerate(users["user_id"].to_pylist())}
    user = np.array([places[name] for name in ratings["user_id"].to_pylist()])
    movie = ratings["item_id"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    time = ratings["timestamp"].cast(pa.int64()).to_numpy()
    users = users.select(["age", "gender", "occupation"]).add_column(0, "user", pa.array(range(len(users))))
    held = np.random.default_rng(0).permutation(len(users)) % FOLDS == seed % FOLDS
    events = pa.table({"user": user, "item": movie, "timestamp": time})
    for name in users.column_names[1:]:
        events = events.append_column(name, users[name].take(events["user"]))
    counts = np.zeros((len(users), int(movie.max()) + 1))
    np.add.at(counts, (user, movie), 1)
    order = np.lexsort((movie, time, user))
    firsts = movie[order][np.unique(user[order], return_index=True)[1]]
    age, gender = users["age"].to_numpy(), users["gender"].to_numpy(zero_copy_only=False)
    alike = (abs(age[held, np.newaxis] - age) <= YEARS) & (gender[held, np.newaxis] == gender) & ~held
    return Newcomers(
        events.filter(pa.array(~held[user])),
        users.filter(pa.array(held)),
        {
            "event_categories": "gender,occupation",
            "event_numbers": "age",
            "known_columns": "age,gender,occupation",
            "history_ends": "event",
        },
        np.arange(counts.shape[1]),
        (np.broadcast_to(counts[~held].sum(0), counts[held].shape), alike @ counts),
        counts[held] > 0,
        firsts[held],
    )


def measure(new: Newcomers, seed: int, folder: Path, settings: Mapping[str, Any]) -> Found:
    """What the lists of each way find."""
    (folder / "source").mkdir(parents=True)
    pc.write_csv(new.events, folder / "source" / "events.csv")
    pc.write_csv(new.users.append_column("history", pa.array(["[]"] * len(new.users))), folder / "users.csv")
    pc.write_csv(pa.table({"item": new.stock}), folder / "stock.csv")
    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder / 'mlflow.db'}"
    run_step("download", f"--raw={folder / 'raw'}", "--dataset=events", f"--source={folder / 'source'}")
    lists = {way: _best(scores, new.stock) for way, scores in zip((POPULAR, ALIKE), new.scores, strict=True)}
    unknown = dict.fromkeys(("event_categories", "event_numbers", "known_columns"), "")
    for number, (way, known) in enumerate({WITHOUT: {**new.known, **unknown}, WITH: new.known}.items()):
        parquet, records, model = (folder / f"{step}_{number}" for step in ("parquet", "tfrecord", "model"))
        run_step("preprocess", f"--raw={folder / 'raw'}", f"--parquet={parquet}", *options_of({**_SAMPLING, **known}))
        run_step("tfrecord", f"--parquet={parquet}", f"--tfrecord={records}")
        given = options_of({**_MODEL, **settings, "seed": seed})
        run_step("train", f"--tfrecord={records}", f"--model={model}", *given)
        lists[way] = _listed(model, folder, new.users["user"].to_numpy())
    found = {}
    for way, items in lists.items():
        hits = np.take_along_axis(new.chosen, items, 1).mean(1), (items == new.first[:, np.newaxis]).any(1)
        found[way] = np.stack(hits, 1).astype(np.float64)
        print(f"seed {seed}, {way}: {found[way].mean(0).round(4).tolist()}", file=sys.stderr, flush=True)
    return found


def _best(scores: np.ndarray, stock: np.ndarray) -> Lists:
    return stock[np.argsort(-scores[:, stock], axis=1, kind="stable")[:, :TOP]]


def _listed(model: Path, folder: Path, users: np.ndarray) -> Lists:
    output = folder / "lists.parquet"
    run_command("recommend", f"--users={folder / 'users.csv'}", f"--model={model}", f"--events={folder / 'raw'}",
                f"--candidates={folder / 'stock.csv'}", f"--top={TOP}", f"--output={output}")  # fmt: skip
    written = pq.read_table(output, columns=["user", "rank", "item"])
    user, rank, item = (written[name].cast(pa.int64()).to_numpy() for name in written.column_names)
    lists = np.zeros((len(users), TOP), np.int64)
    lists[np.searchsorted(users, user), rank - 1] = item
    return lists


def table(by_seed: Sequence[Found]) -> str:
    """A Markdown table with a row for each way. Intervals are of the bootstrap over users."""
    found = {way: np.concatenate([each[way] for each in by_seed]) for way in by_seed[0]}

    users = np.arange(len(found[WITH]))
    heads = [*COLUMNS, *(f"{name}, less sasrec" for name in COLUMNS)]
    lines = [f"{len(found[WITH]):,} users\n", f"| lists | {' | '.join(heads)} |", "|---" * len(heads) + "|---|"]
    for way, values in found.items():
        cells = [interval_text(values[:, place], users) for place in range(len(COLUMNS))]
        cells += [interval_text(values[:, place] - found[WITHOUT][:, place], users, "+") if way != WITHOUT else ""
                  for place in range(len(COLUMNS))]  # fmt: skip
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    options = _parser().parse_args()
    by_seed = []
    for seed in range(options.seed, options.seed + options.seeds):
        with tempfile.TemporaryDirectory(prefix="kfrec-new-users-") as folder:
            new = movielens(options.movielens, seed) if options.movielens else shop(seed)
            by_seed.append(measure(new, seed, Path(folder), dict(each.split("=", 1) for each in options.set)))
        print(table(by_seed), flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.new_users", description=__doc__.partition("\n")[0])
    parser.add_argument("--movielens", type=Path, metavar="FOLDER", help="with ml-100k.inter and .user")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the training")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first one (%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
