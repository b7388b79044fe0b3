"""All events of every user, as each data set of histories reads them from raw files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from components import registry
from components.artifacts import adopt, open_artifact
from components.checks.profiler import Profiler
from components.datasets.definition import PreprocessJob
from components.steps.catalog import STEPS
from tests.datasets.amazon_reviews import raw
from tests.datasets.amazon_reviews.raw import random_reviews

Event = tuple[str, str, int]
EVENTS: list[Event] = [(user, item, 1_600_000_000 + 86_400 * time) for user, item, time in random_reviews(80, 30, 1)]
ONCE: Event = ("once", "i7", 1_600_000_000)


def reviews(folder: Path, events: Sequence[Event]) -> None:
    raw.raw_folder(folder, events, {f"i{item}": "c" for item in range(60)})


def table(folder: Path, events: Sequence[Event]) -> None:
    folder.mkdir()
    rows = [f"{user},{item},{time}\n" for user, item, time in events]
    for name, part in (("a.csv", rows[::2]), ("b.csv", rows[1::2])):
        (folder / name).write_text("user,item,timestamp\n" + "".join(part))
    adopt(folder)


def ratings(folder: Path, events: Sequence[Event]) -> None:
    folder.mkdir()
    (folder / "u.data").write_text("".join(f"{user}\t{item}\t3\t{time}\n" for user, item, time in events))
    adopt(folder)


@pytest.mark.parametrize(("dataset", "write"), [("amazon_reviews", reviews), ("events", table), ("movielens", ratings)])
def test_every_user_has_all_events_oldest_first(
    dataset: str, write: Callable[[Path, Sequence[Event]], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("components.datasets.histories.preprocess._EVENTS", 500)
    write(tmp_path / "raw", [*EVENTS, ONCE])
    parameters = STEPS["preprocess"].of(dataset=dataset)
    profiler = Profiler(dataset, parameters, 0, None)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    job = PreprocessJob(parameters, open_artifact(tmp_path / "raw"), scratch, scratch, scratch, "", profiler)
    read = registry.dataset(dataset).histories
    assert read is not None
    batches = [(users.to_pylist(), items.to_pylist()) for users, items in read(job)]
    found = [pair for batch in batches for pair in zip(*batch, strict=True)]
    expected: dict[str, list[str]] = {}
    for user, item, _ in sorted([*EVENTS, ONCE], key=lambda event: event[2]):
        expected.setdefault(user, []).append(item)
    assert len(batches) > 1 and len(found) == len(expected)
    for user, items in found:
        of_user = sorted(time for name, _, time in EVENTS if name == user)
        if len(set(of_user)) == len(of_user):
            assert items == expected[user]
        assert sorted(items) == sorted(expected[user])
