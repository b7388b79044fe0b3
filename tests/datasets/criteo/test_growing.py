"""Nights with a vocabulary that grows: rows stay, new values get free ones, and days are counted once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.datasets.criteo.columns import CATEGORICAL
from components.datasets.criteo.raw_rows import ImpressionRows
from components.feature_spec import load_feature_spec
from components.feature_spec.living import newly_admitted, seen_file
from tests.datasets.amazon_reviews.raw import samples
from tests.datasets.criteo.raw import Line, error_of, preprocess, random_lines, raw_folder, vocabulary

GROWS: dict[str, Any] = {"frequency_threshold": 3, "vocabulary_slack": 0.5}
DAYS = [random_lines(100, seed=day) for day in range(4)]


def having(lines: list[Line], column: int, value: str, rows: int) -> list[Line]:
    """The lines, the first ones with this value in a column."""
    return [
        [*line[: 14 + column], value, *line[15 + column :]] if number < rows else line
        for number, line in enumerate(lines)
    ]


def without(lines: list[Line], column: int, value: str) -> list[Line]:
    return [line if line[14 + column] != value else having([line], column, "", 1)[0] for line in lines]


def encoding(output: Path) -> dict[str, Any]:
    return dict(load_feature_spec(output).metadata["encoding"])


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("earlier")
    preprocess(raw_folder(folder / "raw", day_0=DAYS[0], day_1=DAYS[1]), folder / "out", **GROWS)
    return folder / "out"


def next_night(earlier: Path, folder: Path, day: list[Line], **changed: Any) -> Path:
    """Trains on ``day``, which is day 1, and tests on day 2."""
    raw = raw_folder(folder / "raw", day_1=day, day_2=DAYS[2])
    preprocess(raw, folder / "out", **{"workflow": str(earlier), **GROWS, **changed})
    return folder / "out"


def test_slack_changes_the_size_of_the_tables_alone(earlier: Path, tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", day_0=DAYS[0], day_1=DAYS[1])
    preprocess(raw, tmp_path / "out", frequency_threshold=3)
    assert samples(tmp_path / "out", "train") == samples(earlier, "train")
    ours, theirs = load_feature_spec(tmp_path / "out"), load_feature_spec(earlier)
    for name in CATEGORICAL:
        assert vocabulary(tmp_path / "out", name) == vocabulary(earlier, name)
        assert not (tmp_path / "out" / seen_file(name)).exists()
        size = ours.features[name].cardinality
        assert size is not None and theirs.features[name].cardinality == -(-size * 3 // 2)


def test_where_nothing_comes_or_goes_the_samples_are_those_of_the_kept_vocabulary(
    earlier: Path, tmp_path: Path
) -> None:
    grown = next_night(earlier, tmp_path / "grown", DAYS[1], frequency_threshold=10**6)
    kept = next_night(earlier, tmp_path / "kept", DAYS[1], vocabulary_slack=0)
    for split in ("train", "test"):
        assert samples(grown, split) == samples(kept, split)
    for name in CATEGORICAL:
        assert (grown / "vocabulary" / f"{name}.parquet").read_bytes() == (
            kept / "vocabulary" / f"{name}.parquet"
        ).read_bytes()
    noted = encoding(grown)
    assert (noted["vocabulary"], noted["admitted"], noted["evicted"]) == ("grown", 0, 0)


def test_a_new_value_gets_a_free_row_and_is_encoded_and_served(earlier: Path, tmp_path: Path) -> None:
    before = vocabulary(earlier, "cat_1")
    out = next_night(earlier, tmp_path, having(DAYS[1], 0, "abcd0001", 5))
    after = vocabulary(out, "cat_1")
    row = after["abcd0001"]
    assert row not in before.values() and {value: after[value] for value in before} == before
    assert [each["cat_1"] for each in samples(out, "train")[:5]] == [row] * 5
    spec = load_feature_spec(out)
    assert spec.features["cat_1"].cardinality == load_feature_spec(earlier).features["cat_1"].cardinality
    assert newly_admitted(spec)["cat_1"].tolist() == sorted(set(after.values()) - set(before.values()))
    assert not newly_admitted(load_feature_spec(earlier))
    assert encoding(out)["admitted"] >= 1
    rows = ImpressionRows(spec, ["cat_1"])
    assert rows.encode({"cat_1": pa.array(["abcd0001", "ffffffff"])}).features["cat_1"].tolist() == [row, 0]


def test_a_value_that_is_seen_no_more_leaves_a_gap_that_the_next_night_fills(earlier: Path, tmp_path: Path) -> None:
    # The smallest row, so that its gap is the first to be filled.
    before = vocabulary(earlier, "cat_2")
    gone = next(value for value, row in before.items() if row == 1)
    out = next_night(earlier, tmp_path, without(DAYS[1], 1, gone), evict_after=1, evict_share=1.0)
    assert gone in vocabulary(out, "cat_2")  # day 1 is one day after day 0
    raw = raw_folder(tmp_path / "raw2", day_2=without(DAYS[2], 1, gone), day_3=DAYS[3])
    rules = {**GROWS, "frequency_threshold": 10**6, "evict_after": 1, "evict_share": 1.0}
    preprocess(raw, tmp_path / "out2", workflow=str(out), **rules)
    assert gone not in (left := vocabulary(tmp_path / "out2", "cat_2")) and 1 not in left.values()
    assert encoding(tmp_path / "out2")["evicted"] >= 1
    day = having(without(DAYS[3], 1, gone), 1, "abcd0002", 60)
    raw = raw_folder(tmp_path / "raw3", day_3=day, day_4=DAYS[0])
    preprocess(raw, tmp_path / "out3", workflow=str(tmp_path / "out2"), evict_after=9, **GROWS)
    assert vocabulary(tmp_path / "out3", "cat_2")["abcd0002"] == 1


def test_an_older_day_is_replayed_and_not_counted_again(earlier: Path, tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", day_0=DAYS[0], day_1=DAYS[1], day_2=DAYS[2])
    counts = preprocess(raw, tmp_path / "out", workflow=str(earlier), replay_share=0.2, **GROWS)
    alone = next_night(earlier, tmp_path / "alone", DAYS[1])
    assert counts["train"] == 120 and encoding(tmp_path / "out")["replayed"] == 20
    assert samples(tmp_path / "out", "train")[20:] == samples(alone, "train")
    for name in CATEGORICAL:
        ours, theirs = (pq.read_table(folder / seen_file(name)) for folder in (tmp_path / "out", alone))
        assert ours.equals(theirs)


def test_the_unknown_share_is_that_of_the_newest_day(earlier: Path, tmp_path: Path) -> None:
    out = next_night(earlier, tmp_path, DAYS[1])
    known = [vocabulary(out, name) for name in CATEGORICAL]
    fields = [(line[14 + column], column) for line in DAYS[2][:50] for column in range(26) if line[14 + column]]
    lacking = sum(value not in known[column] for value, column in fields)
    assert encoding(out)["unknown_share"] == pytest.approx(lacking / len(fields))


def test_what_cannot_grow_is_one_line(earlier: Path, tmp_path: Path) -> None:
    (tmp_path / "errors").mkdir()
    raw = raw_folder(tmp_path / "raw", day_0=DAYS[0], day_1=DAYS[1])
    preprocess(raw, tmp_path / "fixed", frequency_threshold=3)
    of = tmp_path / "errors" / "out"
    assert "its vocabulary has no counters" in error_of(raw, of, workflow=str(tmp_path / "fixed"), **GROWS)
    assert "no day between day 0, the last one" in error_of(raw, of, workflow=str(earlier), **GROWS)
    single = raw_folder(tmp_path / "single", train=DAYS[0])
    assert "train.txt is of no day, and a vocabulary grows by days" in error_of(single, of, **GROWS)
