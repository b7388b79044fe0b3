"""Nightly lists of a synthetic shop: ``python -m benchmarks.shop [--days 30,31] [--models item_knn,sasrec]``.

Each night the models train on all events before it by ``kfrec run``, and ``kfrec recommend --all`` lists 20 items in
stock for each customer; the file of candidates has their categories, and boosts launches. Beside them stand the most
popular items of seven days and an item-kNN by hand. What the customer has bought is left out, or all that the customer
has seen.

The next day tells HR@20: the share of its customers of whose choices one is in their list. Choices are, in one column
each,

- any new item: items that the customer has never seen;
- new purchase: purchases of items that the customer has never bought.

Intervals are of the bootstrap over customers. Below the table stands how far each model is above the best lists by
hand, for the same customers.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from scipy import sparse

from benchmarks.intervals import interval_text
from components.datasets.events.shop import DAY, KINDS, OPENING, PURCHASE, Shelf, ShopEvents, make_shelf, simulate

TOP = 20
# Of launches, as in docs/tonights-lists.md.
BOOST = 2
CATEGORIES, DAYS = 40, 37
_OURS = "kfrec"
# A list of TOP items for each customer, -1 where it ends; ``[users, TOP]``.
Lists = np.ndarray


@dataclass(frozen=True)
class Night:
    """What is known on the evening before a day.

    Attributes:
        stock: bool ``[items]``, what is for sale on the day.
        seen: bool ``[users, items]``.
        bought: bool ``[users, items]``.
    """

    day: int
    events: ShopEvents
    shelf: Shelf
    stock: np.ndarray
    seen: np.ndarray
    bought: np.ndarray


def nights(events: ShopEvents, shelf: Shelf, users: int, days: Sequence[int]) -> Iterator[tuple[Night, np.ndarray]]:
    """Each night, and the choices of the day after it: bool ``[columns, users, items]``."""
    of_day = (events.time // 1000 - OPENING) // DAY
    for day in days:
        before, now = _taken(events, of_day < day), _taken(events, of_day == day)
        seen, bought = (np.zeros((users, len(shelf.price)), bool) for _ in range(2))
        seen[before.user, before.item] = True
        bought[before.user[before.kind == PURCHASE], before.item[before.kind == PURCHASE]] = True
        chosen = np.zeros((2, *seen.shape), bool)
        chosen[0, now.user, now.item] = True
        chosen[1, now.user[now.kind == PURCHASE], now.item[now.kind == PURCHASE]] = True
        stock = np.zeros(len(shelf.price), bool)
        stock[shelf.for_sale(day)] = True
        yield Night(day, before, shelf, stock, seen, bought), chosen & ~np.stack([seen, bought])


def popularity(night: Night) -> Lists:
    """What was viewed most in seven days."""
    newest = night.events.time >= (OPENING + (night.day - 7) * DAY) * 1000
    counts = np.bincount(night.events.item[newest], minlength=len(night.stock)).astype(np.float64)
    return _best(np.broadcast_to(counts, night.seen.shape), night, night.bought)


def item_knn(night: Night, left_out: np.ndarray) -> Lists:
    """Items whose customers are those of the customer's items, newer ones counting more."""
    age = night.day - (night.events.time / 1000 - OPENING) / DAY
    shape, pairs = night.seen.shape, (night.events.user, night.events.item)
    occurs = sparse.csr_matrix(night.seen, dtype=np.float32)
    size = np.sqrt(np.maximum(np.asarray(occurs.sum(0)).ravel(), 1))
    scaled = occurs @ sparse.diags(1 / size)
    alike = (scaled.T @ scaled).tolil()
    alike.setdiag(0)
    profile = sparse.csr_matrix((np.exp2(-age / 7).astype(np.float32), pairs), shape)
    return _best((profile @ alike.tocsr()).toarray(), night, left_out)


class Kfrec:
    """What ``kfrec recommend --all`` writes after ``kfrec run``, which trains once a night."""

    def __init__(self, model: str, settings: Sequence[str], scratch: Path) -> None:
        self._model, self._settings, self._scratch = model, settings, scratch

    def lists(self, left_out: Sequence[str], night: Night) -> Lists:
        """The lists.

        Args:
            left_out: options of the command that tell what is left out.
        """
        folder = self._scratch / f"{self._model}-{night.day}"
        if not folder.exists():
            self._train(folder, night)
        lists = folder / f"lists{len(left_out)}.parquet"
        run_command(
            "recommend",
            f"--workdir={folder / 'work'}",
            "--all",
            "--model=last",
            f"--top={TOP}",
            *left_out,
            f"--candidates={folder / 'stock.csv'}",
            f"--output={lists}",
        )
        written = pq.read_table(lists, columns=["user", "rank", "item"])
        result = np.full((len(night.seen), TOP), -1)
        user, rank, item = (written[name].cast(pa.int64()).to_numpy() for name in written.column_names)
        result[user, rank - 1] = item
        return result

    def _train(self, folder: Path, night: Night) -> None:
        folder.mkdir()
        raw = folder / "raw"
        raw.mkdir()
        events = night.events
        columns = {
            "user": events.user,
            "item": events.item,
            "timestamp": events.time,
            "event": np.array(KINDS)[events.kind],
            "category": night.shelf.category[events.item],
        }
        pc.write_csv(pa.table(columns), raw / "events.csv")
        stock = np.flatnonzero(night.stock)
        boost = np.where(np.isin(stock, events.item), 1, BOOST)
        told = {"item": stock, "category": night.shelf.category[stock], "boost": boost}
        pc.write_csv(pa.table(told), folder / "stock.csv")
        run_command(
            "run",
            f"--workdir={folder / 'work'}",
            f"--model={self._model}",
            "--dataset=events",
            f"--source={raw}",
            *(f"--set={each}" for each in self._settings),
        )


def main() -> None:
    options = _parser().parse_args()
    rng = np.random.default_rng(options.seed)
    shelf = make_shelf(options.items, CATEGORIES, DAYS, rng)
    events = simulate(shelf, options.users, DAYS, rng)
    with tempfile.TemporaryDirectory(prefix="kfrec-shop-", dir=options.folder) as scratch:
        ways: dict[str, Callable[[Night], Lists]] = {
            "popularity of 7 days": popularity,
            "item-kNN by hand, bought left out": lambda night: item_knn(night, night.bought),
            "item-kNN by hand, seen left out": lambda night: item_knn(night, night.seen),
        }
        for model in options.models:
            listed = Kfrec(model, options.set, Path(scratch)).lists
            ways[f"{_OURS} {model}, bought left out"] = partial(
                listed, ("--keep-seen", f"--never-again={KINDS[PURCHASE]}")
            )
            ways[f"{_OURS} {model}, seen left out"] = partial(listed, ("--no-keep-seen",))
        by_hand = [name for name in ways if not name.startswith(_OURS)]
        visitors: list[list[np.ndarray]] = [[], []]
        hits: dict[str, list[list[np.ndarray]]] = {name: [[], []] for name in ways}
        for night, chosen in nights(events, shelf, options.users, options.days):
            for column, each in enumerate(chosen):
                visitors[column].append(np.flatnonzero(each.any(1)))
            for name, way in ways.items():
                lists = way(night)
                for column in range(len(chosen)):
                    hits[name][column].append(found_in(lists, chosen[column]))
    print(f"HR@{TOP}, {options.users:,} customers, {options.items:,} items, days {', '.join(map(str, options.days))}\n")
    print(f"{'lists':36}{'any new item':28}new purchase")
    users = [np.concatenate(column) for column in visitors]
    found = {name: [np.concatenate(column) for column in columns] for name, columns in hits.items()}
    best = [max((found[name][column] for name in by_hand), key=np.mean) for column in range(len(users))]
    for name, columns in found.items():
        print(
            f"{name:36}" + "".join(f"{interval_text(*each):28}" for each in zip(columns, users, strict=True)).rstrip()
        )
    print("\nabove the best by hand")
    for name in (name for name in found if name not in by_hand):
        above = [mine - theirs for mine, theirs in zip(found[name], best, strict=True)]
        print(
            f"{name:36}"
            + "".join(f"{interval_text(*each, '+'):28}" for each in zip(above, users, strict=True)).rstrip()
        )


def _taken(events: ShopEvents, chosen: np.ndarray) -> ShopEvents:
    return ShopEvents(*(column[chosen] for column in vars(events).values()))


def _best(scores: np.ndarray, night: Night, left_out: np.ndarray) -> Lists:
    scores = np.where(night.stock & ~left_out, scores, -np.inf)
    best = np.argpartition(-scores, TOP, 1)[:, :TOP]
    return np.take_along_axis(best, np.argsort(-np.take_along_axis(scores, best, 1), 1), 1)


def found_in(lists: Lists, chosen: np.ndarray) -> np.ndarray:
    """Of each customer with choices, whether one is in the list, float64 ``[n]``."""
    found = np.any(np.take_along_axis(chosen, np.maximum(lists, 0), 1) & (lists >= 0), axis=1)
    return np.asarray(found[np.any(chosen, axis=1)], np.float64)


def run_command(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pipelines.cli", *arguments], check=True, stdout=subprocess.DEVNULL)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=_numbers, default="30,33,36", metavar="A,B,...", help="days after the nights")
    parser.add_argument("--models", type=_names, default="item_knn,sasrec", metavar="A,B,...")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="as for kfrec run")
    parser.add_argument("--users", type=int, default=20_000, metavar="N", help="customers (default %(default)s)")
    parser.add_argument("--items", type=int, default=5_000, metavar="N", help="items (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the simulation (default %(default)s)")
    parser.add_argument("--folder", default=None, metavar="FOLDER", help="for artifacts (default: of temporary files)")
    return parser


def _names(text: str) -> list[str]:
    return [each for each in text.split(",") if each]


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


if __name__ == "__main__":
    main()
