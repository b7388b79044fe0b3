"""What columns of events bring: ``python -m benchmarks.event_columns [--movielens FOLDER] [--seeds N] [CASE ...]``.

SASRec trains with the same settings and seeds without columns, with each one, and with all; a case tells the NDCG@10 of
its test samples, and how far that is above the model without columns, by samples of the same users.

- purchases: purchases in a synthetic shop after histories of views, carts and purchases; each seed has its own shop;
- movielens: the last item of each user of MovieLens 100K, in the files that ``dataset_example/ml-100k`` of the wheel of
  recbole 1.2.1 holds. Their licence forbids passing them on.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from benchmarks.intervals import interval_text
from benchmarks.trained import run_step, trained
from components.artifacts import adopt
from components.datasets.events.shop import DEVICES, KINDS, PURCHASE, devices_of, make_shelf, simulate
from components.feature_spec import Channel, load_feature_spec
from components.feature_spec.event_columns import EventColumn
from components.feature_spec.spec import FILENAME
from components.tasks.catalogue import discounted_gains
from components.tasks.next_item import RANK, USER

TOP, USERS, ITEMS, CATEGORIES, DAYS = 10, 6000, 1000, 20, 30
WITHOUT = "without"
Settings = Mapping[str, Any]
_SAMPLING: Settings = {"dataset": "events", "negatives": "none", "max_sequence_length": 30}
_MODEL: Settings = {
    "task": "next_item", "item_dim": 32, "attention_layers": 1, "feed_forward_dim": 64, "state_dropout": 0.2,
    "global_batch_size": 256, "lr": 0.004, "epochs": 15, "patience": 0, "export_epoch": "last",
}  # fmt: skip
# More than the customers of a shop.
_SEED = 10**9


@dataclass(frozen=True)
class Variant:
    """A training.

    Attributes:
        columns: those that the model reads.
        sampling: other parameters of the preprocess step than those of the case.
    """

    columns: Sequence[str] = ()
    sampling: Settings = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """Data and what to compare on them.

    Attributes:
        write: the table of events, by the seed.
        sampling: parameters of the preprocess step, which name all columns.
        is_drawn: whether each seed has its own data, and so its own users.
    """

    write: Callable[[int], pa.Table]
    sampling: Settings
    variants: Mapping[str, Variant]
    is_drawn: bool = True


def shop(seed: int) -> pa.Table:
    """The events of a shop; the hour is that of the day in UTC."""
    rng = np.random.default_rng(seed)
    shelf = make_shelf(ITEMS, CATEGORIES, DAYS, rng)
    events = simulate(shelf, USERS, DAYS, rng)
    return pa.table(
        {
            "user": events.user,
            "item": events.item,
            "timestamp": events.time,
            "event": np.array(KINDS)[events.kind],
            "category": shelf.category[events.item],
            "price": shelf.price[events.item],
            "device": np.array(DEVICES)[devices_of(events, rng)],
            "hour": events.time // 3_600_000 % 24,
        }
    )


def movielens(folder: Path) -> pa.Table:
    """The ratings in ml-100k.inter with their hours and what ml-100k.user and ml-100k.item tell of users and movies."""
    ratings, users, movies = (
        pc.read_csv(
            folder / f"ml-100k.{name}",
            parse_options=pc.ParseOptions(delimiter="\t", quote_char=False),
            convert_options=pc.ConvertOptions(strings_can_be_null=False),
        )
        for name in ("inter", "user", "item")
    )
    ratings, users, movies = (
        table.rename_columns([name.partition(":")[0] for name in table.column_names])
        for table in (ratings, users, movies)
    )
    told = ratings.join(users, "user_id").join(movies.select(["item_id", "class"]), "item_id", join_type="left outer")
    hour = np.asarray(told["timestamp"], np.int64) // 3600 % 24
    columns = {"user": "user_id", "item": "item_id", "timestamp": "timestamp", "rating": "rating", "age": "age",
               "occupation": "occupation", "category": "class"}  # fmt: skip
    table = pa.table({name: told[column] for name, column in columns.items()} | {"hour": hour})
    return table.sort_by([("timestamp", "ascending"), ("user", "ascending"), ("item", "ascending")])


def cases(folder: Path | None) -> dict[str, Case]:
    """The cases by name; without the folder of MovieLens, those of the shop."""
    of_shop = {"test_reviews": 0.2, "event_categories": "event,device,hour", "event_numbers": "price"}
    of_movies = {"event_categories": "rating,hour,occupation", "event_numbers": "age"}
    found = {
        "purchases": Case(
            shop,
            {**of_shop, "target_kinds": KINDS[PURCHASE]},
            {
                WITHOUT: Variant(),
                "kind of the event": Variant(["event"]),
                "price": Variant(["price"]),
                "device": Variant(["device"]),
                "hour": Variant(["hour"]),
                "all four": Variant(["event", "price", "device", "hour"]),
            },
        ),
    }
    if folder is not None:
        found["movielens"] = Case(
            lambda seed: movielens(folder),
            {**of_movies, "split": "last_two_items", "training_targets": "windows"},
            {
                WITHOUT: Variant(),
                "rating": Variant(["rating"]),
                "rating as a weight in the loss": Variant(sampling={"weight_column": "rating", "weighted_loss": True}),
                "hour": Variant(["hour"]),
                "age": Variant(["age"]),
                "occupation": Variant(["occupation"]),
                "all four": Variant(["rating", "hour", "age", "occupation"]),
            },
            is_drawn=False,
        )
    return found


def measure(case: Case, seed: int, folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Trains each variant.

    Returns:
        By variant the user of each test sample, int64 ``[n]``, and its gain, float64 ``[n]``.
    """
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for number, (name, records) in enumerate(_records(case, seed, folder).items()):
        scores = trained("sasrec", _MODEL, records, folder / f"model_{number}_{seed}", seed)
        users = scores.kept[USER].astype(np.int64) + (seed * _SEED if case.is_drawn else 0)
        found[name] = users, discounted_gains(scores.outputs[RANK], TOP)
        if not np.array_equal(users, found[WITHOUT][0]):
            raise RuntimeError(f"{name} has other test samples than {WITHOUT}")
        print(f"seed {seed}, {name}: {found[name][1].mean():.4f}", file=sys.stderr, flush=True)
    return found


def _records(case: Case, seed: int, folder: Path) -> dict[str, Path]:
    """The records of each variant, written if the folder lacks them; those of equal samples are copies."""
    raw = folder / "raw"
    samplings: list[Settings] = []
    paths = {name: folder / f"records_{number}" for number, name in enumerate(case.variants)}
    if raw.exists():
        return paths
    (folder / "source").mkdir(parents=True)
    pc.write_csv(case.write(seed), folder / "source" / "events.csv")
    run_step("download", f"--raw={raw}", "--dataset=events", f"--source={folder / 'source'}")
    for name, variant in case.variants.items():
        if variant.sampling not in samplings:
            given = {**_SAMPLING, **case.sampling, **variant.sampling}
            parquet, records = (folder / f"{step}_{len(samplings)}" for step in ("parquet", "tfrecord"))
            run_step(
                "preprocess", f"--raw={raw}", f"--parquet={parquet}", *(f"--{key}={of}" for key, of in given.items())
            )
            run_step("tfrecord", f"--parquet={parquet}", f"--tfrecord={records}")
            samplings.append(variant.sampling)
        shutil.copytree(folder / f"tfrecord_{samplings.index(variant.sampling)}", paths[name])
        _leave(paths[name], variant.columns)
    return paths


def _leave(records: Path, columns: Sequence[str]) -> None:
    """Leaves these columns of events to the model, which reads none of the others."""
    spec = load_feature_spec(records)
    left = tuple(EventColumn(name).sequence for name in columns)
    channels = {name: features for name, features in spec.channels.items() if name != Channel.EVENTS}
    channels |= {Channel.EVENTS: left} if left else {}
    (records / FILENAME).write_text(replace(spec, channels=channels).to_yaml())
    adopt(records)


def table(by_seed: Sequence[Mapping[str, tuple[np.ndarray, np.ndarray]]]) -> str:
    """A Markdown table with a row for each variant. Intervals are of the bootstrap over users, of all seeds at once."""
    users = np.concatenate([found[WITHOUT][0] for found in by_seed])
    gains = {variant: np.concatenate([found[variant][1] for found in by_seed]) for variant in by_seed[0]}

    lines = [
        f"{len(users):,} test samples of {len(np.unique(users)):,} users\n",
        f"| columns | NDCG@{TOP} | above {WITHOUT} | of each seed |",
        "|---|---|---|---|",
    ]
    for variant, values in gains.items():
        above = "" if variant == WITHOUT else interval_text(values - gains[WITHOUT], users, "+", 4)
        each = ", ".join(f"{(found[variant][1] - found[WITHOUT][1]).mean():+.4f}" for found in by_seed) if above else ""
        lines.append(f"| {variant} | {interval_text(values, users, digits=4)} | {above} | {each} |")
    return "\n".join(lines)


def main() -> int:
    options = _parser().parse_args()
    known = cases(options.movielens)
    for name in options.cases or known:
        if name not in known:
            print(f"error: no case {name}; give some of {', '.join(known)}", file=sys.stderr)
            return 1
        case, by_seed = known[name], []
        with tempfile.TemporaryDirectory(prefix="kfrec-event-columns-") as folder:
            for seed in range(options.seed, options.seed + options.seeds):
                by_seed.append(measure(case, seed, Path(folder, str(seed) if case.is_drawn else "data")))
                print(f"\n{name}, seeds {options.seed} to {seed}: {table(by_seed)}", flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.event_columns", description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="purchases, movielens; default all")
    parser.add_argument("--movielens", type=Path, metavar="FOLDER", help="with ml-100k.inter, .user and .item")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first one (%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
