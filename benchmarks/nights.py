"""Nights of DLRM whose values come and go: ``python -m benchmarks.nights [--first N] [--nights N] [--rows N]``.

Each night's newest day tests what four ways of training reach, and what preprocess, tfrecord and train cost, in seconds
of a processor, which other work on the machine does not change:

    full          everything trains, with a new vocabulary
    frozen        everything trains, with the first night's vocabulary
    incremental   the days since the last night continue its weights and moments; the vocabulary grows
    no admission  the same, with the first night's vocabulary

All share the first night, which trains on the first days.
"""

from __future__ import annotations

import argparse
import math
import random
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.planted import CASES
from benchmarks.process import processor_seconds
from benchmarks.trained import options_of, run_step, trained
from components.contract import PROBABILITY
from components.metrics import roc_auc

FULL, FROZEN, INCREMENTAL, NO_ADMISSION = "full", "frozen", "incremental", "no admission"
WAYS = (FULL, FROZEN, INCREMENTAL, NO_ADMISSION)
CONTINUE = (INCREMENTAL, NO_ADMISSION)
_NEVER = 10**9
SAMPLING: Mapping[str, Any] = {"dataset": "criteo", "test_day_share": 1.0}
GROWS: Mapping[str, Any] = {"vocabulary_slack": 2.0, "evict_after": 7}
TURNOVER = 0.05
# Quantiles of Student's distribution for a 95 % interval, by the number of seeds.
_STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}
# Targets of INCREMENTAL: largest loss of AUC against FULL, and share of its cost.
LOSS, COST = 0.002, 0.2


@dataclass(frozen=True)
class Night:
    """The result of a way of training in a night.

    Attributes:
        auc: of the newest day.
        seconds: of a processor.
    """

    auc: float
    seconds: float


def measure(
    first: int,
    nights: int,
    rows: int,
    turnover: float,
    seed: int,
    folder: Path,
    compared: int | None = None,
    **training: Any,
) -> dict[str, list[Night]]:
    """The nights of each way, from the second one on.

    Args:
        first: days that the first night trains on; another one tests it.
        nights: with the first one.
        rows: impressions a day.
        turnover: share of the values that others replace each day.
        compared: the newest nights, which alone have results; ``None`` is all. Before them, only the ways that
            continue train.
        training: parameters of the train step, in place of those of ``benchmarks.planted``.
    """
    days = first + nights
    generated = {"synthetic_impressions": rows * days, "synthetic_days": days, "synthetic_turnover": turnover}
    run_step("download", f"--raw={folder / 'days'}", "--dataset=criteo", f"--seed={seed}", *options_of(generated))
    parameters = {**CASES["dlrm"].training, **training}

    def night(name: str, files: Sequence[int], sampling: Mapping[str, Any], earlier: Path | None) -> Night:
        raw, parquet, records = (folder / name / each for each in ("raw", "parquet", "tfrecord"))
        named = ",".join(f"day_{day}" for day in files)
        run_step("download", f"--raw={raw}", "--dataset=criteo", f"--source={folder / 'days'}", f"--files={named}")
        began = processor_seconds()
        given = options_of({**SAMPLING, **sampling})
        run_step("preprocess", f"--raw={raw}", f"--parquet={parquet}", *given)
        run_step("tfrecord", f"--parquet={parquet}", f"--tfrecord={records}")
        start = {"continue_path": str(earlier / "model")} if earlier is not None else {}
        scores = trained("dlrm", {**parameters, **start}, records, folder / name / "model", seed)
        for read in (raw, parquet):
            shutil.rmtree(read)
        return Night(roc_auc(scores.labels, scores.outputs[PROBABILITY]), processor_seconds() - began)

    night("first", range(first + 1), GROWS, None)
    found: dict[str, list[Night]] = {way: [] for way in WAYS}
    last = dict.fromkeys(CONTINUE, folder / "first")
    for newest in range(first + 1, days):
        new = [newest - 1, newest]
        replayed = [random.Random(newest).randrange(newest - 1)]
        judged = compared is None or newest >= days - compared
        for way in WAYS if judged else CONTINUE:
            name, every = f"{way} {newest}".replace(" ", "-"), list(range(newest + 1))
            if way not in CONTINUE:
                known = {"workflow": str(folder / "first" / "tfrecord")} if way == FROZEN else {}
                result = night(name, every, known, None)
                shutil.rmtree(folder / name)
            else:
                kept = {"frequency_threshold": _NEVER, "evict_share": 0} if way == NO_ADMISSION else {}
                earlier = {"workflow": str(last[way] / "tfrecord")}
                result = night(name, replayed + new, {**GROWS, **kept, **earlier}, last[way])
                if last[way] != folder / "first":
                    shutil.rmtree(last[way])
                last[way] = folder / name
            if judged:
                found[way].append(result)
            print(f"seed {seed}, night {newest}, {way}: AUC {result.auc:.4f}, {result.seconds:.0f} s", file=sys.stderr)
    return found


def interval(values: Sequence[float]) -> str:
    """The mean over seeds, with its 95 % interval where there are several."""
    if len(values) not in _STUDENT:
        return f"{mean(values):+.4f}"
    return f"{mean(values):+.4f} ± {_STUDENT[len(values)] * stdev(values) / math.sqrt(len(values)):.4f}"


def table(by_seed: Sequence[Mapping[str, Sequence[Night]]]) -> str:
    """A Markdown table with one row per way; differences are between the same nights of the same seed."""
    lines = [
        "| way | AUC | against full | against frozen | processor s a night | cost |",
        "|---|---:|---:|---:|---:|---:|",
    ]

    def of(way: str, figure: str) -> list[float]:
        return [mean(getattr(night, figure) for night in found[way]) for found in by_seed]

    auc = {way: of(way, "auc") for way in WAYS}
    for way in WAYS:
        against = [
            interval([mine - theirs for mine, theirs in zip(auc[way], auc[other], strict=True)])
            for other in (FULL, FROZEN)
        ]
        seconds = mean(of(way, "seconds"))
        share = seconds / mean(of(FULL, "seconds"))
        lines.append(f"| {way} | {mean(auc[way]):.4f} | {against[0]} | {against[1]} | {seconds:.1f} | {share:.2f} |")
    return "\n".join(lines)


def missed(by_seed: Sequence[Mapping[str, Sequence[Night]]]) -> list[str]:
    """Messages for the targets that ``INCREMENTAL`` misses."""

    def average(way: str, figure: str) -> float:
        return mean(getattr(night, figure) for found in by_seed for night in found[way])

    loss = average(FULL, "auc") - average(INCREMENTAL, "auc")
    cost = average(INCREMENTAL, "seconds") / average(FULL, "seconds")
    messages = [f"AUC is {loss:.4f} below that of full, more than {LOSS}"] if loss > LOSS else []
    return messages + ([f"the cost is {cost:.2f} of that of full, more than {COST}"] if cost > COST else [])


def main() -> int:
    options = _parser().parse_args()
    by_seed = []
    for seed in range(options.seed, options.seed + options.seeds):
        with tempfile.TemporaryDirectory(prefix="kfrec-nights-") as folder:
            chosen = dict(each.split("=", 1) for each in options.set)
            sizes = options.first, options.nights, options.rows, options.turnover
            by_seed.append(measure(*sizes, seed, Path(folder), options.compared, **chosen))
    print(table(by_seed))
    for line in (failures := missed(by_seed)):
        print(f"error: {INCREMENTAL}: {line}", file=sys.stderr)
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nights", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--first", type=int, default=1, metavar="N", help="days of the first night, default %(default)s"
    )
    parser.add_argument("--nights", type=int, default=30, metavar="N", help="default %(default)s")
    parser.add_argument("--compared", type=int, metavar="N", help="the newest nights, with results (all)")
    parser.add_argument("--rows", type=int, default=200_000, metavar="N", help="a day, default %(default)s")
    parser.add_argument("--turnover", type=float, default=TURNOVER, metavar="SHARE", help="a day, default %(default)s")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the trainings")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="default %(default)s")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first one, default %(default)s")
    return parser


if __name__ == "__main__":
    sys.exit(main())
