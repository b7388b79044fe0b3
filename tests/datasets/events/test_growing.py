"""Nights of events whose vocabulary grows: new events train, older ones are the histories of their users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.datasets.histories.raw_rows import EventRows
from components.datasets.histories.samples import CutSamples
from components.feature_spec import Channel, load_feature_spec
from components.feature_spec.catalogue import read_catalogue
from components.feature_spec.living import newly_admitted, seen_file
from tests.datasets.amazon_reviews.raw import samples, vocabulary
from tests.datasets.events.test_events import DAY, csv, error_of, made

LENGTH = 6
GROWS: dict[str, Any] = {
    "split": "time", "seen_items": "keep", "history_ends": "event", "negatives": "none", "max_sequence_length": LENGTH,
    "negative_sequence_length": 2, "vocabulary_slack": 0.5, "replay_share": 0.0, "validation_reviews": 0.0,
    "test_reviews": 0.1,
}  # fmt: skip
WINDOWS = {"training_targets": "windows"}
Event = tuple[str, str, int, str]


def day_of(day: int, items: Sequence[str], users: int = 30) -> list[Event]:
    """A day on which every user has four events, at distinct times."""
    random = np.random.default_rng(day)
    return [
        (f"u{user}", name, DAY * (20_000 + day) + 600 * (users * number + user), f"c{len(name)}")
        for user in range(users)
        for number, name in enumerate(random.choice(items, 4))
    ]


OLD = [f"i{item}" for item in range(20)]
DAYS = [day_of(day, OLD) for day in range(5)]


def tables(*days: Sequence[Event]) -> dict[str, str]:
    return {f"day{number}.csv": csv(day) for number, day in enumerate(days)}


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What trains on two days, less the tenth that tests."""
    return made(tmp_path_factory.mktemp("earlier"), tables(*DAYS[:2]), **GROWS)


def cuts(output: Path) -> tuple[int, int]:
    found = load_feature_spec(output).cuts
    return found["train_end"], found["test_begin"]


def encoding(output: Path) -> dict[str, Any]:
    return dict(load_feature_spec(output).metadata["encoding"])


def ids(output: Path, name: str) -> dict[str, int]:
    return {value: row for row, value in vocabulary(output, name).items()}


def next_night(earlier: Path, folder: Path, *days: Sequence[Event], **changed: Any) -> Path:
    return made(folder, tables(*days), **{**GROWS, "workflow": str(earlier), **changed})


def test_slack_changes_the_sizes_alone(earlier: Path, tmp_path: Path) -> None:
    plain = made(tmp_path, tables(*DAYS[:2]), **{**GROWS, "vocabulary_slack": 0})
    for split in ("train", "test"):
        assert samples(plain, split) == samples(earlier, split)
    ours, theirs = load_feature_spec(plain), load_feature_spec(earlier)
    for name in ("uid", "item", "cat"):
        file = f"vocabulary/{name}.parquet"
        assert (plain / file).read_bytes() == (earlier / file).read_bytes()
        assert not (plain / seen_file(name)).exists()
    assert (ours.features["item_trgt"].cardinality, theirs.features["item_trgt"].cardinality) == (22, 32)
    assert (ours.features["uid"].cardinality, theirs.features["uid"].cardinality) == (32, 47)


@pytest.mark.parametrize("targets", [{}, WINDOWS])
def test_each_event_trains_in_one_night_after_the_whole_history_of_its_user(
    earlier: Path, tmp_path: Path, targets: dict[str, str]
) -> None:
    first = made(tmp_path / "first", tables(*DAYS[:2]), **GROWS, **targets)
    second = next_night(first, tmp_path / "second", *DAYS[:3], **targets)
    third = next_night(second, tmp_path / "third", *DAYS[:4], **targets)
    (_, tested), (begin, end) = cuts(first), cuts(second)
    assert begin == cuts(second)[0] and tested < begin < end + 1
    events = sorted((time * 10**9, user, item) for day in DAYS[:4] for user, item, time, _ in day)
    for output, since in ((second, cuts(first)[0]), (third, cuts(second)[0])):
        known, users = vocabulary(output, "item"), vocabulary(output, "uid")
        until = cuts(output)[0]
        expected = Counter((user, item) for time, user, item in events if since <= time < until)
        found: Counter[tuple[str, str]] = Counter()
        for row in samples(output, "train"):
            own = [item for time, user, item in events if time < until and user == users[row["uid"]]]
            read = [known[each] for each in (*row["item_sequence"], row["item"]) if each]
            assert " ".join(read) in " ".join(own)
            weights = row.get("weight_sequence", [0.0] * LENGTH + [1.0])[-len(read) :]
            assert set(weights) <= {0.0, 1.0} and weights[-1] == 1
            found.update((users[row["uid"]], item) for item, weight in zip(read, weights, strict=True) if weight)
        assert found == expected
        assert max(sum(each > 0 for each in row["item_sequence"]) for row in samples(output, "train")) == LENGTH
    assert (Channel.WEIGHT in load_feature_spec(second).channels) == bool(targets)


def test_where_nothing_comes_or_goes_the_samples_are_those_of_the_kept_vocabulary(
    earlier: Path, tmp_path: Path
) -> None:
    days = [*DAYS[:2], day_of(2, [*OLD, "new"])]
    grown = next_night(earlier, tmp_path / "grown", *days, admit_after=10**6)
    assert (encoding(grown)["vocabulary"], encoding(grown)["admitted"], encoding(grown)["evicted"]) == ("grown", 0, 0)
    kept = next_night(earlier, tmp_path / "kept", *days, vocabulary_slack=0, out_of_vocabulary_limit=1.0)
    for name in ("uid", "item", "cat"):
        file = f"vocabulary/{name}.parquet"
        assert pq.read_table(grown / file).select(["id", "value"]).equals(
            pq.read_table(kept / file).select(["id", "value"])
        )  # fmt: skip
    # The kept vocabulary's samples are of all days, and a tenth of these tests.
    trained, tested = ([str(row) for row in samples(grown, split)] for split in ("train", "test"))
    everything = [str(row) for split in ("train", "test") for row in samples(kept, split)]
    assert len(trained) > 80 and set(trained + tested) < set(everything)
    since, until = cuts(earlier)[0], cuts(grown)[0]
    assert len(trained) == sum(since <= time * 10**9 < until for day in days for _, _, time, _ in day)


def test_a_new_item_gets_a_free_row_and_is_encoded_and_served(earlier: Path, tmp_path: Path) -> None:
    before = ids(earlier, "item")
    out = next_night(earlier, tmp_path, *DAYS[:2], day_of(2, [*OLD, "newest"]))
    after = ids(out, "item")
    row = after["newest"]
    assert row not in before.values() and {value: after[value] for value in before} == before
    spec = load_feature_spec(out)
    assert spec.features["item_trgt"].cardinality == load_feature_spec(earlier).features["item_trgt"].cardinality
    assert newly_admitted(spec)["item_trgt"].tolist() == [row] and "uid" not in newly_admitted(spec)
    assert any(sample["item"] == row for sample in samples(out, "train"))
    category = read_catalogue(out)
    assert category is not None and category[row] == ids(out, "cat")["c6"]
    rows = EventRows(spec, ["item_trgt"])
    assert rows.encode({"item": pa.array(["newest", "never"])}).features["item_trgt"].tolist() == [row, 2]
    noted = encoding(out)
    assert (noted["admitted"], noted["evicted"]) == (2, 0) and noted["unknown_share"] == 0


def test_an_item_that_is_seen_no_more_leaves_its_row_and_its_category_to_another_one(
    earlier: Path, tmp_path: Path
) -> None:
    rules = {"evict_after": 1, "evict_share": 1.0}
    days = [day_of(day, OLD[1:]) for day in range(2, 6)]
    second = next_night(earlier, tmp_path / "second", *DAYS[:2], *days, **rules)
    gone = ids(earlier, "item")["i0"]
    assert (encoding(second)["admitted"], encoding(second)["evicted"]) == (0, 1)
    assert gone not in ids(second, "item").values()
    category = read_catalogue(second)
    assert category is not None and category[gone] == 0
    # Its events in histories are of an unknown item.
    assert any(2 in row["item_sequence"] for row in samples(second, "train"))
    days = [*days, *(day_of(day, [*OLD[1:], "third one"]) for day in (6, 7))]
    third = next_night(second, tmp_path / "third", *days, **rules)
    assert ids(third, "item")["third one"] == gone
    rows = EventRows(load_feature_spec(third), ["item_trgt"])
    assert rows.encode({"item": pa.array(["third one", "i0"])}).features["item_trgt"].tolist() == [gone, 2]
    restored = next_night(third, tmp_path / "kept", *days, vocabulary_slack=0, out_of_vocabulary_limit=1.0)
    assert vocabulary(restored, "item") == vocabulary(third, "item")


def test_events_before_the_night_are_not_counted_again(earlier: Path, tmp_path: Path) -> None:
    alone = next_night(earlier, tmp_path / "alone", DAYS[1], DAYS[2])
    both = next_night(earlier, tmp_path / "both", *DAYS[:3])
    for name in ("uid", "item", "cat"):
        ours, theirs = (pq.read_table(folder / seen_file(name)) for folder in (alone, both))
        assert ours.equals(theirs)
    table = pq.read_table(both / seen_file("item"))
    end = cuts(both)[0]
    counts = Counter(item for day in DAYS[:3] for _, item, time, _ in day if time * 10**9 < end)
    assert dict(zip(table["value"].to_pylist(), table["count"].to_pylist(), strict=True)) == counts
    assert set(table["last"].to_pylist()) == {20_002} and set(table["first"].to_pylist()) == {20_000}


def test_a_share_of_the_older_events_trains_once_more(earlier: Path, tmp_path: Path) -> None:
    alone = next_night(earlier, tmp_path / "alone", *DAYS[:3])
    out = next_night(earlier, tmp_path / "replayed", *DAYS[:3], replay_share=0.3)
    more = len(samples(out, "train")) - len(samples(alone, "train"))
    assert 0.5 < encoding(out)["replayed"] / (0.3 * len(samples(alone, "train"))) < 1.5
    # The first event of a user has no history.
    assert 0 < more <= encoding(out)["replayed"]
    windows = next_night(earlier, tmp_path / "windows", *DAYS[:3], replay_share=0.3, **WINDOWS)
    assert sum(map(sum, (row["weight_sequence"] for row in samples(windows, "train")))) > len(samples(alone, "train"))


def test_only_users_with_a_target_are_cut_into_samples(
    earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are most users of a night, whose work would grow with the days of their histories."""
    cut, transform = Counter[str](), CutSamples.transform

    def counted(self: CutSamples, selector: Any, users: Any) -> Any:
        cut[self.targets.split] += len(users)
        return transform(self, selector, users)

    monkeypatch.setattr(CutSamples, "transform", counted)
    tonight = [event for event in DAYS[2] if int(event[0][1:]) >= 20]
    night = next_night(earlier, tmp_path, *DAYS[:2], tonight, validation_reviews=0.2)
    (begin, end), times = (cuts(earlier)[0], cuts(night)[0]), [event for day in (*DAYS[:2], tonight) for event in day]
    since = {"train": (begin, end), "validation": (end, cuts(night)[1]), "test": (cuts(night)[1], np.inf)}
    for split, (first, last) in since.items():
        assert cut[split] == len({user for user, _, time, _ in times if first <= time * 10**9 < last}) < 30
    assert samples(night, "train") and samples(night, "test")


def test_the_unknown_share_is_that_of_the_items_of_the_test_split(earlier: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    last = [(user, "late" if random.random() < 0.5 else item, time + 60, c) for user, item, time, c in DAYS[2][-40:]]
    out = next_night(earlier, tmp_path, *DAYS[:2], DAYS[2][:-40], last)
    tested = [item for _, item, time, _ in last if time * 10**9 >= cuts(out)[1]]
    known = ids(out, "item")
    expected = sum(item not in known for item in tested) / len(tested)
    assert encoding(out)["unknown_share"] == pytest.approx(expected, abs=0.3)


def test_what_cannot_grow_is_one_line(earlier: Path, tmp_path: Path) -> None:
    fixed = made(tmp_path / "fixed", tables(*DAYS[:2]), **{**GROWS, "vocabulary_slack": 0})
    errors = tmp_path / "errors"
    said = error_of(errors / "1", tables(*DAYS[:3]), workflow=str(fixed), **GROWS)
    assert "its vocabulary has no counters" in said
    said = error_of(errors / "2", tables(DAYS[0]), workflow=str(earlier), shortest_sequence_for_user=3, **GROWS)
    assert "workflow has trained on all events before 2024-10-05" in said and "give the events since then" in said
    said = error_of(errors / "3", tables(*DAYS[:2]), **{**GROWS, "split": "last_item"})
    assert "a vocabulary grows by the events since a moment; set split=time" in said
