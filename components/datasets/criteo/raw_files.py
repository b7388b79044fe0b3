"""The raw files: day_0, day_1, ... of the terabyte, or train.txt of the Kaggle competition, plain or gzip."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from components.artifacts import Artifact
from components.datasets.criteo.parameters import Sampling
from components.datasets.definition import RawContract, RawKind
from components.errors import KfrecError

DAYS = RawKind(
    "day", r"(day_\d+|train\.txt)(\.gz)?", "day_0, day_1, ... or train.txt, plain or with .gz", "impressions"
)
CONTRACT = RawContract((DAYS,))
_ONLY_FILE = "train.txt"


def find_days(raw: Artifact, parameters: Sampling) -> list[Path]:
    """The files to read: the training days in order, then the test day; or the only file.

    Raises:
        KfrecError: no file, a duplicate day, files of both kinds, a missing test day or earlier day, or a test day of
            train.txt.
    """
    files = DAYS.files(raw)
    single = [path for path in files if path.name.startswith(_ONLY_FILE)]
    if single and len(files) > 1:
        raise KfrecError(
            f"{single[0]}: lies beside {next(p for p in files if p not in single).name}, which is of another "
            "collection; name the files of one of them with the parameter files"
        )
    if single and parameters.test_day >= 0:
        raise KfrecError(f"parameter test_day={parameters.test_day}: {single[0]} is of no day; leave it at -1")
    if len(files) == 1 and parameters.test_day < 0:
        return files
    return _chosen(sorted(files, key=_number), parameters, raw.path)


def _number(path: Path) -> int:
    return int(path.name.removesuffix(".gz").removeprefix("day_"))


def _chosen(days: Sequence[Path], parameters: Sampling, folder: Path) -> list[Path]:
    numbers = [_number(path) for path in days]
    test = numbers[-1] if parameters.test_day < 0 else parameters.test_day
    available = f"the days here are {', '.join(map(str, numbers))}"
    if test not in numbers:
        raise KfrecError(f"parameter test_day={test}: no day_{test} in {folder}; {available}")
    last = numbers.index(test)
    if not last:
        raise KfrecError(f"parameter test_day={test}: no day before it to train on in {folder}; {available}")
    first = max(0, last - parameters.train_days) if parameters.train_days else 0
    return list(days[first : last + 1])
