"""A backfill: a run for each data version, in order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from components.download.step import run as download
from components.errors import KfrecError
from components.find.step import run as find
from components.steps.catalog import STEPS
from pipelines.cli import main
from pipelines.defaults import Pipeline
from pipelines.nights import nights
from tests.pipelines.conftest import Run
from tests.pipelines.test_retraining import SMALL

RETRAINING = Pipeline("retraining", "din", "", "")


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    for day in ("2026-11-08", "2026-11-09", "2026-11-10"):
        folder = tmp_path / "logs" / day
        folder.mkdir(parents=True)
        for name in ("reviews_A.json", "meta_A.json"):
            (folder / name).write_text("{}\n")
    return str(tmp_path / "logs")


@pytest.mark.parametrize(
    ("first", "last", "days"),
    [
        ("2026-11-09", None, ["2026-11-09", "2026-11-10"]),
        (None, "2026-11-09T02:00", ["2026-11-08", "2026-11-09"]),
        ("2026-11-09", "2026-11-09", ["2026-11-09"]),
    ],
)
def test_each_version_between_has_its_values(prefix: str, first: str | None, last: str | None, days: list[str]) -> None:
    given = {"data_prefix": prefix, "epochs": 2}
    assert nights(RETRAINING, given, first, last) == [{**given, "data_until": day} for day in days]


def test_without_an_interval_there_is_one_run() -> None:
    assert nights(Pipeline(), {"epochs": 2}, None, None) == [{"epochs": 2}]


@pytest.mark.parametrize(
    ("pipeline", "values", "first", "said"),
    [
        (Pipeline(), {}, "2026", "--from and --until are of data versions; give --pipeline retraining"),
        (RETRAINING, {"data_until": "x"}, "2026", "leave --set data_until=x out"),
        (RETRAINING, {}, "2027", "no data version from 2027; there are 2026-11-08 to 2026-11-10"),
    ],
)
def test_what_is_no_interval_is_one_line(
    prefix: str, pipeline: Pipeline, values: dict[str, Any], first: str, said: str
) -> None:
    with pytest.raises(KfrecError, match=said):
        nights(pipeline, {"data_prefix": prefix, **values}, first, None)


def test_a_later_version_is_not_there_yet(prefix: str, store: str, tmp_path: Path) -> None:
    parameters = dict(data_prefix=prefix, registered_model="of-a-past-day", data_until="2026-11-09")
    assert find(STEPS["find"].of(**parameters), champion=tmp_path / "champion")["data_version"] == "2026-11-09"
    with pytest.raises(KfrecError, match=r"data_until=2025: the oldest data version, .*2026-11-08, is later"):
        find(STEPS["find"].of(**parameters | {"data_until": "2025"}), champion=tmp_path / "other")


@pytest.mark.parametrize("words", [["--resume", "last"], ["--after", "sasrec"]])
def test_an_interval_of_what_is_one_run_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--pipeline", "retraining", "--from", "2026-11-09", *words]) == 2
    assert f"--from and --until start a run for each data version, which {words[0]} does not" in capsys.readouterr().err


def test_a_backfill_on_a_cluster_waits_for_each_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", "--pipeline=retraining", "--from=2026-11-08"]) == 2
    assert "start a run once the one before has ended; give --wait, too" in capsys.readouterr().err


@pytest.mark.slow
def test_missed_nights_are_caught_up_once_and_in_order(tmp_path: Path, in_process: Callable[..., Run]) -> None:
    for day, users in ((8, 300), (9, 340), (10, 380)):
        raw = tmp_path / "logs" / f"2026-11-{day:02}"
        download(STEPS["download"].of(synthetic_users=users, synthetic_items=300), raw=raw)
    given = {**SMALL, "data_prefix": str(tmp_path / "logs"), "registered_model": "nightly"}
    words = ["--model=din", "--pipeline=retraining", *(f"--set={name}={value}" for name, value in given.items())]
    first = in_process(tmp_path / "runs", *words, "--until=2026-11-09")
    assert first.status == 0, first.err
    every = in_process(tmp_path / "runs", *words, "--from=2026-11-09")
    assert every.status == 0, every.err
    assert "2 data versions, oldest first: 2026-11-09, 2026-11-10" in every.out
    assert "a model was trained on it already" in every.out
    client = MlflowClient(f"sqlite:///{tmp_path / 'runs' / 'mlflow.db'}")
    held = sorted(client.search_model_versions("name = 'nightly'"), key=lambda version: int(version.version))
    assert [version.tags["kfrec.data_version"] for version in held] == ["2026-11-08", "2026-11-09", "2026-11-10"]
