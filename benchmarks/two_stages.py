"""Two stages against one: ``python -m benchmarks.two_stages --data RECORDS --retriever MODEL --ranker MODEL``.

Lists for the same test users by the ranker over all items, and by the ranker over what the retriever finds: HR@10 of
the item that each user chose last, the differences by the paired bootstrap over users, and the CPU time, which other
load on the machine changes less than the time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from components.feature_spec import load_feature_spec
from components.metrics import Interval, mean_interval
from components.scoring import load_raw_model
from components.scoring.catalogue import Catalogue
from components.scoring.choices import Choices, choices_in, ranks_of
from components.scoring.two_stages import TwoStages

TOP = 10
_WARM = 20  # users


def main() -> None:
    options = _parser().parse_args()
    choices = choices_in(load_feature_spec(options.data), options.users)
    ranker, retriever = (Catalogue(load_raw_model(folder)) for folder in (options.ranker, options.retriever))
    ways = {"ranker, all items": ranker, "retriever alone": retriever} | {
        f"{count} retrieved, ranked": TwoStages(retriever, ranker, count) for count in map(int, options.retrieve)
    }
    print(f"{len(choices.chosen):,} users, {len(ranker.names):,} items")
    print(f"{'':24}  {'HR@10':24}  {'NDCG@10':24}  {'HR@10 - all items':28}  {'CPU ms a user':>13}  less")
    hits: list[np.ndarray] = []
    took: list[float] = []
    for title, catalogue in ways.items():
        ranks_of(catalogue, Choices(*(each[:_WARM] for each in choices)))
        begun = time.process_time()
        ranks = ranks_of(catalogue, choices)
        took.append(1000 * (time.process_time() - begun) / len(ranks))
        hits.append((ranks <= TOP).astype(float))
        gains = np.where(ranks <= TOP, 1 / np.log2(1 + ranks), 0.0)
        shown = [_text(mean_interval(values)) for values in (hits[-1], gains, hits[-1] - hits[0])]
        print(
            f"{title:24}  {shown[0]:24}  {shown[1]:24}  {shown[2]:28}  {took[-1]:13.2f}  {took[0] / took[-1]:.1f}x",
            flush=True,
        )


def _text(interval: Interval) -> str:
    return f"{interval.estimate:.4f} ({interval.low:.4f} to {interval.high:.4f})"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, what in (("data", "records"), ("retriever", "the first stage's model"), ("ranker", "the second stage's")):
        parser.add_argument(f"--{name}", type=Path, required=True, metavar="FOLDER", help=what)
    parser.add_argument("--users", type=int, default=300, metavar="N", help="test users (default %(default)s)")
    parser.add_argument("--retrieve", type=_numbers, default="50,100,200", metavar="A,B,...", help="candidates")
    return parser


def _numbers(text: str) -> Sequence[str]:
    return text.split(",")


if __name__ == "__main__":
    main()
