"""MovieLens: three formats, ratings as choices, and the models of histories on it."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from components.artifacts import adopt
from components.datasets.histories.sorting import told_column
from components.datasets.movielens.preprocess import parse_movies, parse_ratings
from components.download import step as download
from components.errors import KfrecError
from components.preprocess import step as preprocess
from components.steps.catalog import STEPS
from components.workflows.text_blocks import Block
from tests.pipelines.conftest import run_in_process

RATINGS = [(f"{user}", f"{movie}", 1 + (user + movie) % 5, 900_000_000 + 1000 * user + movie)
           for user in range(1, 9) for movie in range(1, 13)]  # fmt: skip
GENRES = {f"{movie}": ("Drama", "Action|Sci-Fi")[movie % 2] for movie in range(1, 13)}
_FLAGS = {"Drama": [8], "Action|Sci-Fi": [1, 15]}


def _flags(genre: str) -> str:
    return "|".join(str(int(place in _FLAGS[genre])) for place in range(19))


def hundred_thousand(folder: Path) -> None:
    (folder / "u.data").write_text("".join(f"{u}\t{m}\t{r}\t{t}\n" for u, m, r, t in RATINGS))
    lines = "".join(f"{m}|Caf\xe9 ({m})|01-Jan-1995||http://x|{_flags(g)}\n" for m, g in GENRES.items())
    (folder / "u.item").write_bytes(lines.encode("latin-1"))


def million(folder: Path) -> None:
    (folder / "ratings.dat").write_text("".join(f"{u}::{m}::{r}::{t}\n" for u, m, r, t in RATINGS))
    lines = "".join(f"{m}::Caf\xe9, A: B (1995)::{g}\n" for m, g in GENRES.items())
    (folder / "movies.dat").write_bytes(lines.encode("latin-1"))


def newer(folder: Path) -> None:
    lines = "".join(f"{u},{m},{r}.0,{t}\r\n" for u, m, r, t in RATINGS)
    with gzip.open(folder / "ratings.csv.gz", "wb") as file:
        file.write(f"userId,movieId,rating,timestamp\r\n{lines}".encode())
    lines = "".join(f'{m},"Caf\xe9, A (1995)",{g}\n' for m, g in GENRES.items())
    (folder / "movies.csv").write_text(f"movieId,title,genres\n{lines}")


def _samples(folder: Path, **values: object) -> dict[str, list[dict[str, object]]]:
    raw = folder / "raw"
    adopt(raw)
    parameters = STEPS["preprocess"].of(
        dataset="movielens", workers=1, max_sequence_length=5, negative_sequence_length=2, **values
    )
    preprocess.run(parameters, raw=raw, parquet=folder / "parquet")
    return {
        split: pq.read_table(sorted((folder / "parquet" / split).glob("*.parquet"))).to_pylist()
        for split in ("train", "test")
    }


@pytest.mark.parametrize("form", [hundred_thousand, million, newer])
def test_every_form_gives_the_same_samples(form: Callable[[Path], None], tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder, write in zip(folders, (form, hundred_thousand), strict=True):
        (folder / "raw").mkdir(parents=True)
        write(folder / "raw")
    one, other = (_samples(folder, split="last_item", seed=1) for folder in folders)
    assert one == other and len(one["test"]) == 2 * 8
    categories = pq.read_table(folders[0] / "parquet" / "vocabulary" / "cat.parquet").to_pydict()
    assert {"Drama", "Action|Sci-Fi"} <= {value for column in categories.values() for value in column}
    titles = pq.read_table(folders[0] / "parquet" / "vocabulary" / "titles.parquet").to_pydict()
    assert sorted(titles["item"]) == sorted(GENRES) and all(title.startswith("Caf\xe9") for title in titles["title"])


def test_a_low_rating_is_no_choice(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    million(tmp_path / "raw")
    chosen = _samples(tmp_path, split="last_item", least_rating=4.0, shortest_sequence_for_user=2, negatives="none")
    liked = sum(rating >= 4 for _, _, rating, _ in RATINGS)
    # Each user's last choice tests, and the first one has no history.
    assert len(chosen["train"]) == liked - 2 * 8 and len(chosen["test"]) == 8


def test_without_movies_all_are_alike(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    million(tmp_path / "raw")
    (tmp_path / "raw" / "movies.dat").unlink()
    assert _samples(tmp_path, split="last_item")["test"]
    assert not (tmp_path / "parquet" / "vocabulary" / "titles.parquet").exists()


def test_ratings_above_the_scale_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    newer(tmp_path / "raw")
    with pytest.raises(KfrecError, match=r"ratings.csv.gz: no rating of at least least_rating=6; lower it"):
        _samples(tmp_path, least_rating=6.0)


def test_a_malformed_line_is_kept_aside_with_its_reason() -> None:
    table, bad = parse_ratings(Block(b"1::2::3::900000000\n1::2::3\nx::2::good::1\n::2::3::4\n", 1, 0))
    assert table.to_pylist() == [{"reviewerID": "1", "asin": "2", "unixReviewTime": 900_000_000, "rating": 3.0}]
    assert [(line.number, line.reason) for line in bad] == [
        (2, "3 values; a rating has a user, a movie, a rating and a time"),
        (3, "rating 'good' or time '1' is no number"),
        (4, "no user or no movie"),
    ]
    _, bad = parse_movies(Block(b"movieId,title,genres\n1,Heat,Action\n7\n", 1, 0))
    assert [line.number for line in bad] == [3]


def test_the_built_in_ratings_are_those_of_the_contract(tmp_path: Path) -> None:
    given = STEPS["download"].of(dataset="movielens", synthetic_users=30, synthetic_items=60, synthetic_categories=4)
    counts = download.run(given, raw=tmp_path / "raw")
    assert counts["ratings"] > 100 and counts["movies"] == 61  # and the names of the columns
    assert _samples(tmp_path, shortest_sequence_for_user=2)["train"]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["sim", "din", "dien", "sasrec"])
def test_every_model_of_histories_trains_on_it(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    values = ("epochs=1", "synthetic_users=300", "synthetic_items=200", "catalogue_users=10", "preprocess_workers=1")
    words = [word for value in values for word in ("--set", value)]
    run = run_in_process("--workdir", str(tmp_path), "--model", model, "--dataset", "movielens", *words)
    assert run.summary["registered"]["version"] == 1


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("1::Heat (1995)::Action", ("Heat", "1995")),
        ("1::Heat (1995) ::Action", ("Heat", "1995")),
        ("1::Heat (1995) again::Action", ("Heat (1995) again", None)),
        ("1::Heat::Action", ("Heat", None)),
        (f"1::a{' ' * 20_000}b::Action", (f"a{' ' * 20_000}b", None)),
    ],
)
def test_the_title_and_the_year_of_a_movie_are_told_apart(line: str, told: tuple[str, str | None]) -> None:
    text = line.encode() + b"\n"
    table, bad = parse_movies(Block(text, 1, len(text)), ["title", "year"])
    assert not bad and (table[told_column("title")][0].as_py(), table[told_column("year")][0].as_py()) == told
