"""Plain tables of users, items and times become the samples of the same reviews."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.artifacts import adopt
from components.datasets.histories.raw_rows import EventRows
from components.download.step import run as download
from components.errors import KfrecError
from components.feature_spec import load_feature_spec
from components.feature_spec.catalogue import TITLES, read_titles
from components.progress import EVENTS, parse_event
from components.steps.catalog import STEPS
from components.workflows import tables as workflow_tables
from components.workflows.tables import Layout, Stated, columns_of
from tests.datasets.amazon_reviews import raw
from tests.datasets.amazon_reviews.raw import random_reviews, samples
from tests.preprocess import running

CATEGORIES = {f"i{item}": f"c{item % 4}" for item in range(60)}
REVIEWS = random_reviews(120, 30, 1)
DAY = 86_400


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The samples of the reviews; a time unit is a day."""
    folder = tmp_path_factory.mktemp("reviews")
    reviews = [(user, item, 1_600_000_000 + DAY * time) for user, item, time in REVIEWS]
    raw.preprocess(raw.raw_folder(folder / "raw", reviews, CATEGORIES), folder / "parquet")
    return folder / "parquet"


def folder_of(path: Path, tables: dict[str, str | bytes | pa.Table]) -> Path:
    path.mkdir(parents=True)
    for name, content in tables.items():
        if isinstance(content, pa.Table):
            pq.write_table(content, path / name)
        else:
            (path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    adopt(path)
    return path


def made(folder: Path, tables: dict[str, Any], **parameters: Any) -> Path:
    small = {"max_sequence_length": 4, "negative_sequence_length": 2, "shortest_sequence_for_user": 3}
    given = {"dataset": "events", "split": "last_item", **small, **parameters}
    running.preprocess(folder_of(folder / "raw", tables), folder / "parquet", **given)
    return folder / "parquet"


def error_of(folder: Path, tables: dict[str, Any], **parameters: Any) -> str:
    return running.error_of(folder_of(folder / "raw", tables), folder / "parquet", dataset="events", **parameters)


def test_all_tables_are_read_under_one_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{user},{item},{1_600_000_000 + DAY * time}\n" for user, item, time in REVIEWS]
    days = {f"{part}.csv": "user,item,timestamp\n" + "".join(rows[part::3]) for part in range(3)}
    monkeypatch.setenv(EVENTS, "1")
    made(tmp_path, days)
    told = [event for line in capsys.readouterr().out.splitlines() if (event := parse_event(line))]
    size = sum(map(len, days.values()))
    read = [each for each in told if each.get("label", "").startswith("reading")]
    assert {each["label"] for each in read} == {"reading tables"}
    assert (read[-1]["done"], read[-1]["total"]) == (size, size)


def test_the_names_of_columns_are_read_from_the_start_of_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "day.csv").write_text("user,item,timestamp\n" + "u,i,1600000000\n" * 600_000)
    (tmp_path / "long.csv").write_text("user,item,timestamp\n" + f"u,{'i' * 200_000},1600000000\n")
    read, plain = [0], workflow_tables._plain

    @contextmanager
    def counting(path: Path) -> Iterator[Any]:
        with plain(path) as (stream, tell):
            yield stream, tell
            read[0] += tell()

    monkeypatch.setattr(workflow_tables, "_plain", counting)
    layout, stated = Layout(",", (), ()), Stated("", "", "")
    names = [columns_of(tmp_path / "day.csv", layout, stated)]
    assert read[0] < (tmp_path / "day.csv").stat().st_size / 3  # Arrow reads 35 blocks ahead at most: 2.3 of 9 MB
    names.append(columns_of(tmp_path / "long.csv", layout, stated))
    assert names == [["user", "item", "timestamp"]] * 2


def csv(rows: Iterable[Iterable[object]], header: str = "user,item,timestamp,category") -> str:
    return "".join(f"{line}\n" for line in [header, *(",".join(map(str, row)) for row in rows)])


SECONDS = [(user, item, 1_600_000_000 + DAY * time, CATEGORIES[item]) for user, item, time in REVIEWS]


def dated(day: int) -> str:
    return datetime.fromtimestamp(1_600_000_000 + DAY * day, UTC).isoformat()


FORMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "csv": ({"events.csv": csv(SECONDS)}, {}),
    "gzip and other names": (
        {"log.csv.gz": gzip.compress(csv(SECONDS, "who,what,at,kind").encode())},
        {"user_column": "who", "item_column": "what", "time_column": "at", "category_column": "kind"},
    ),
    "milliseconds": ({"e.csv": csv((u, i, t * 1000, c) for u, i, t, c in SECONDS)}, {}),
    "dates": ({"e.csv": csv((u, i, dated(t), CATEGORIES[i]) for u, i, t in REVIEWS)}, {}),
    "tabs without a header": (
        {"u.data": "".join(f"{u}\t{i}\t5\t{t}\t{c}\n" for u, i, t, c in SECONDS)},
        {"delimiter": "tab", "header": "user,item,rating,timestamp,category"},
    ),
    "parquet": (
        {
            "e.parquet": pa.table(
                dict(zip(("user", "item", "timestamp", "category"), zip(*SECONDS, strict=True), strict=True))
            )
        },
        {},
    ),
    "two files": ({"a.csv": csv(SECONDS[:200]), "b.csv": csv(SECONDS[200:])}, {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_samples_of_the_reviews(form: str, expected: Path, tmp_path: Path) -> None:
    tables, parameters = FORMS[form]
    found = made(tmp_path, tables, **parameters)
    for split in ("train", "test"):
        assert samples(found, split) == samples(expected, split)


def test_ids_that_are_numbers_are_alike_in_files_of_all_types(tmp_path: Path) -> None:
    rows = [(user, 7 + (user + step) % 9, step * DAY) for user in range(40) for step in range(6)]
    one = made(tmp_path / "one", {"e.csv": csv(rows, "user,item,timestamp")})
    floats = pa.table({"user": [float(u) for u, _, _ in rows], "item": [i for _, i, _ in rows],
                       "timestamp": [t for _, _, t in rows]})  # fmt: skip
    two = made(tmp_path / "two", {"e.parquet": floats})
    assert samples(one, "train") == samples(two, "train") and samples(one, "train")


MOMENTS: dict[str, Callable[[int], str]] = {
    "seconds": lambda time: f"{time // 1000}.{time % 1000:03d}",
    "milliseconds": str,
    "microseconds": lambda time: f"{time}000",
    "nanoseconds": lambda time: f"{time}000001",
    "dates": lambda time: f"{datetime.fromtimestamp(time // 1000, UTC):%Y-%m-%d %H:%M:%S}.{time % 1000:03d}",
}


def test_the_order_is_that_of_the_times_in_every_unit(tmp_path: Path) -> None:
    # All within a second, two of a user 10 ms apart.
    events = [(f"u{step % 10}", f"i{(step * 7 + step // 10) % 41}", 1_600_000_000_000 + step) for step in range(1000)]
    found = {}
    for unit, written in MOMENTS.items():
        rows = [(user, item, written(time)) for user, item, time in reversed(events)]
        table = csv(rows, "user,item,timestamp")
        for split in ("last_item", "time"):
            given = {"split": split, "seen_items": "keep"}
            found[unit, split] = raw.named(made(tmp_path / unit / split, {"e.csv": table}, **given), "test")
    assert all(each == found["milliseconds", split] for (_, split), each in found.items())
    of_users = {user: [item for other, item, _ in events if other == user] for user, _, _ in events}
    positives = [sample for sample in found["nanoseconds", "last_item"] if sample["label"]]
    assert {sample["uid"]: sample["item_sequence"] for sample in positives} == {
        user: items[-5:-1] for user, items in of_users.items()
    }


def test_without_categories_all_items_share_one(tmp_path: Path) -> None:
    found = made(tmp_path, {"e.csv": csv((row[:3] for row in SECONDS), "user,item,timestamp")})
    assert pq.read_table(found / "vocabulary" / "cat.parquet")["value"].to_pylist() == ["no_category"]


def test_a_column_that_some_tables_lack_is_named(tmp_path: Path) -> None:
    with_category = csv(SECONDS[:200])
    without = csv((row[:3] for row in SECONDS[200:]), "user,item,timestamp")
    assert "a.csv: has no column 'category'" in error_of(tmp_path, {"a.csv": without, "b.csv": with_category})


def test_a_category_of_several_values_or_with_a_nul_is_refused(tmp_path: Path) -> None:
    columns = {"user": ["a"], "item": ["b"], "timestamp": [1]}
    for number, (category, told) in enumerate({"not one id": [["x"]], "a NUL character": ["x\0"]}.items()):
        assert category in error_of(tmp_path / str(number), {"e.parquet": pa.table({**columns, "category": told})})


def test_the_built_in_events_are_those_of_the_reviews(tmp_path: Path) -> None:
    given = {"synthetic_users": 40, "synthetic_items": 60, "synthetic_categories": 5}
    for dataset in ("events", "amazon_reviews"):
        download(STEPS["download"].of(dataset=dataset, **given), raw=tmp_path / dataset)
    with gzip.open(tmp_path / "events" / "events.csv.gz", "rt") as file:
        events = [tuple(line.split(",")[:3]) for line in file.read().splitlines()[1:]]
    with gzip.open(tmp_path / "amazon_reviews" / "reviews_Synthetic.json.gz", "rt") as file:
        reviews = [json.loads(line) for line in file]
    assert events == [(each["reviewerID"], each["asin"], str(each["unixReviewTime"])) for each in reviews]


@pytest.mark.parametrize(
    ("content", "parameters", "told"),
    [
        ("user,item,timestamp\na,b,20240101\n", {}, "holds dates as YYYYMMDD; state time_format=%Y%m%d"),
        ("user,item,timestamp\n1.5,b,1\n2,b,1\n", {}, "parameter user_column: the column holds numbers such as 1.5"),
        ("user,item,timestamp\n1,7.12E+11,1\n", {}, "parameter item_column: the column holds numbers such as 7.12E+11"),
        ('user,item,timestamp\n1,"[1, 2]",1\n', {}, "a list as programs write it; give each id a row"),
        ("user,item,timestamp\n1,2,3\n", {"user_column": "item"}, "two of them are 'item'; correct one"),
        ("uid,item,timestamp\na,b,1\n", {}, "has no column 'user', which parameter user_column"),
        ("user,item,timestamp\na,b,03/04/2024\n", {}, "state how it is written, such as time_format=%d/%m/%Y"),
        ("user,item,timestamp\na,,1600000000\n", {}, "1 of 1 lines are not events, the first is line 2"),
        ("user,item,timestamp\na,b,1600000000\na,b,1600000000000\n", {}, "milliseconds and in seconds since 1970"),
        ("1,2,3\n4,5,6\n", {}, "name the columns with the parameter header"),
        ("user,item,timestamp\na,b,1\n", {"category_column": "kind"}, "has no column 'kind'"),
        (
            "user,item,timestamp\na,b,1\n",
            {"delimiter": "::"},
            "delimiter='::' is no character; put tabs in their place",
        ),
        ("1::2::5::978300760\n", {}, "separated by '::': put tabs in their place (sed 's/::/\\t/g')"),
        (
            "user,item,timestamp\na,b,1\nc,b,1\n",
            {},
            "no user has two events, and a sample needs one before its target",
        ),
    ],
)
def test_what_is_no_event_is_one_line(content: str, parameters: dict[str, str], told: str, tmp_path: Path) -> None:
    assert told in error_of(tmp_path, {"e.csv": content}, **parameters)


def test_rows_to_score_have_the_ids_of_preprocessing(tmp_path: Path) -> None:
    rows = [(user, 7 + (user * 7 + step * step) % 50, step * DAY) for user in range(40) for step in range(6)]
    spec = load_feature_spec(made(tmp_path, {"e.csv": csv(rows, "user,item,timestamp")}))
    encoder = EventRows(spec, ["uid", "item_trgt"])
    whole = encoder.encode({"user": pa.array([3, 4]), "item": pa.array(["9", "11"])})
    assert not sum(lacking.sum() for lacking in whole.unknown.values())
    floats = encoder.encode({"user": pa.array([3.0, 4.0]), "item": pa.array([" 9.0", "11.0"])})
    for name, values in whole.features.items():
        np.testing.assert_array_equal(floats.features[name], values)


def test_a_history_that_a_program_wrote_as_text_is_refused(tmp_path: Path) -> None:
    rows = [(user, 7 + (user * 7 + step * step) % 50, step * DAY) for user in range(40) for step in range(6)]
    spec = load_feature_spec(made(tmp_path, {"e.csv": csv(rows, "user,item,timestamp")}))
    with pytest.raises(KfrecError, match=r"column history has \"\['7', '9'\]\", a list as programs write it"):
        EventRows(spec, ["item_pos"]).encode({"history": pa.array(["['7', '9']"])})


def test_items_have_the_first_title_of_theirs_and_keep_those_of_the_vocabulary(tmp_path: Path) -> None:
    days = [SECONDS[: len(SECONDS) // 2], SECONDS]
    plain = made(tmp_path / "plain", {"e.csv": csv(days[0])})
    titled = [(*row, f"Item  {row[1]} {number}" if int(row[1][1:]) % 2 else "") for number, row in enumerate(days[0])]
    output = made(tmp_path / "titled", {"e.csv": csv(titled, "user,item,timestamp,category,name")}, title_column="name")
    later = made(tmp_path / "later", {"e.csv": csv(days[1])}, workflow=str(output), out_of_vocabulary_limit=1.0)
    found: dict[str, str] = {}
    for row in titled:
        if row[-1]:
            found.setdefault(row[1], " ".join(row[-1].split()))
    known = set(pq.read_table(output / "vocabulary" / "item.parquet")["value"].to_pylist())
    for folder in (output, later):
        titles = read_titles(folder)
        assert dict(zip(*(titles[name].to_pylist() for name in ("item", "title")), strict=True)) == {
            item: title for item, title in found.items() if item in known
        }
    assert not len(read_titles(plain)) and samples(plain, "train") == samples(output, "train")


def test_damaged_titles_are_named(tmp_path: Path) -> None:
    (tmp_path / TITLES).parent.mkdir()
    (tmp_path / TITLES).write_bytes(b"PAR1")
    with pytest.raises(KfrecError, match=r"titles\.parquet: no titles of items"):
        read_titles(tmp_path)
