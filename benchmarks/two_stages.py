"""Two stages against one: ``python -m benchmarks.two_stages --data RECORDS --retriever MODEL --ranker MODEL``.

Lists for the choices of the same test users by the ranker over all items, and by the ranker over what the retriever
finds, in the ranker's order and in the one that the register step weighs by the validation split: NDCG@10 and HR@10,
the differences to the retriever alone by the paired bootstrap over users, and the CPU time, which other load on the
machine changes less than the time. ``--on validation`` leaves the test split alone: half of the validation users weigh,
the other half compare.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.intervals import interval_text
from components.feature_spec import load_feature_spec
from components.feature_spec.spec import TEST, VALIDATION
from components.random_draws import hashes
from components.scoring import load_raw_model
from components.scoring.catalogue import Catalogue
from components.scoring.choices import Choices, choices_in, ranks_of
from components.scoring.two_stages import TwoStages
from components.scoring.weighing import weighed
from components.tasks.catalogue import discounted_gains, hits

TOP = 10
_WARM = 20  # users


def main() -> None:
    options = _parser().parse_args()
    spec = load_feature_spec(options.data)
    choices = choices_in(spec, options.users, options.on)
    of_order = choices_in(spec, options.users, VALIDATION) if VALIDATION in spec.sources else None
    if options.on == VALIDATION:
        is_half = hashes(choices.owners) % 2 == 0
        choices, of_order = _of(choices, ~is_half), _of(choices, is_half)
    ranker, retriever = (Catalogue(load_raw_model(folder)) for folder in (options.ranker, options.retriever))
    ways: dict[str, Catalogue] = {"retriever alone": retriever}
    if options.all_items:
        ways["ranker, all items"] = ranker
    for count in map(int, options.retrieve):
        ways[f"{count}, ranker's order"] = stages = TwoStages(retriever, ranker, count)
        if of_order is not None:
            weights = weighed(stages, of_order)
            print(f"{count} retrieved: {', '.join(f'{name} {value:.3f}' for name, value in weights._asdict().items())}")
            ways[f"{count}, weighed"] = TwoStages(retriever, ranker, count, weights)
    users = len(np.unique(choices.owners))
    print(f"{len(choices.chosen):,} choices of {users:,} users, {len(ranker.names):,} items")
    names = ("NDCG@10", "less retriever's", "HR@10", "less retriever's")
    print(f"{'':24}  {''.join(f'{name:28}' for name in names)}CPU ms a choice")
    rivals: list[np.ndarray] = []
    for title, catalogue in ways.items():
        ranks_of(catalogue, _of(choices, np.arange(min(_WARM, len(choices.owners)))))
        begun = time.process_time()
        ranks = ranks_of(catalogue, choices)
        took = 1000 * (time.process_time() - begun) / len(ranks)
        values = [discounted_gains(ranks, TOP), hits(ranks, TOP)]
        rivals = rivals or values
        shown = [
            interval_text(each, choices.owners, digits=4)
            for own, rival in zip(values, rivals, strict=True)
            for each in (own, own - rival)
        ]
        print(f"{title:24}  {''.join(f'{text:28}' for text in shown)}{took:15.2f}", flush=True)


def _of(choices: Choices, chosen: np.ndarray) -> Choices:
    rows = pa.array(np.arange(len(choices.owners))[chosen])
    users, histories, items = (each.take(rows) for each in choices[:3])
    return Choices(users, histories, items, choices.owners[chosen])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, what in (("data", "records"), ("retriever", "the first stage's model"), ("ranker", "the second stage's")):
        parser.add_argument(f"--{name}", type=Path, required=True, metavar="FOLDER", help=what)
    parser.add_argument("--users", type=int, default=2000, metavar="N", help="users (default %(default)s)")
    parser.add_argument("--retrieve", type=_numbers, default="100", metavar="A,B,...", help="candidates")
    parser.add_argument("--on", choices=(TEST, VALIDATION), default=TEST, help="split (default %(default)s)")
    parser.add_argument("--all-items", action="store_true", help="rank all items, too, which takes long")
    return parser


def _numbers(text: str) -> Sequence[str]:
    return text.split(",")


if __name__ == "__main__":
    main()
