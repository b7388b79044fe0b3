"""One run of an extension's model that fails, and is resumed after a file, a parameter or the extension has changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipelines.runs.record import find_run
from tests.pipelines.conftest import run_in_process
from tests.pipelines.installed import edit, installed

pytestmark = pytest.mark.slow
_GIVEN = ("epochs=1", "global_batch_size=20", "tfrecord_workers=1", "train_seed=1", "bootstrap_samples=100")
_STOPS = "        raise KfrecError('stopped here')\n"


@dataclass(frozen=True)
class Resumed:
    """What the attempts at the run said, by what was changed before them.

    Attributes:
        source: folder of the raw files.
        folder: of the run.
        said: lines on stderr.
    """

    source: Path
    folder: Path
    said: dict[str, list[str]]

    def steps(self, attempt: str) -> list[str]:
        """The steps that an attempt ran."""
        return [line.split()[0] for line in self.said[attempt] if line.endswith(" …")]


def trips(count: int, begin: int = 0) -> str:
    return "".join(f"{i % 30 + 1},{i % 8 + 1},{i % 7 / 4},{i % 2}\n" for i in range(begin, begin + count))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resumed]:
    place = tmp_path_factory.mktemp("resumed")
    source, workdir, said = place / "trips", place / "runs", dict[str, list[str]]()
    source.mkdir()
    file = source / "trips_a.csv"
    file.write_text(trips(200) + "not a trip\n")

    def attempt(name: str, *words: str) -> None:
        done = run_in_process("--workdir", str(workdir), *words)
        said[name] = done.err.splitlines()
        assert (done.status == 0) == (name == "the end"), done.err[-3000:]

    resume = ("--resume", "last")
    with pytest.MonkeyPatch.context() as patch, installed("regression", place / "site", patch) as package:
        for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"):
            patch.delenv(name, raising=False)
        edit(package / "model.py", "        super().__init__()\n", f"        super().__init__()\n{_STOPS}")
        edit(
            package / "model.py",
            "import tensorflow as tf\n",
            "import tensorflow as tf\nfrom components.errors import KfrecError\n",
        )
        given = [word for value in _GIVEN for word in ("--set", value)]
        attempt("a bad line", "--model", "trip_time", "--source", str(source), *given)
        file.write_text(trips(200))
        attempt("the file", *resume)
        os.utime(file, (1, 1))
        attempt("nothing", *resume)
        attempt("a parameter of preprocess", *resume, "--set", "test_share=0.4")
        attempt("a parameter of train", *resume, "--set", "dense_lr=0.05")
        (source / "trips_b.csv").write_text(trips(100, 200))
        attempt("another file", *resume)
        edit(
            package / "dataset.py",
            "ZONES, STOPS, MOST_STOPS = 30, 8, 3",
            "ZONES, STOPS, MOST_STOPS = 30, 8, 3  # as usual",
        )
        attempt("the extension", *resume)
        source.rename(place / "elsewhere")
        attempt("no source", *resume)
        (place / "elsewhere").rename(source)
        edit(package / "model.py", _STOPS, "")
        attempt("the end", *resume)
        yield Resumed(source, find_run(workdir, "last").folder, said)


def test_an_error_names_the_file_that_the_user_can_correct(run: Resumed) -> None:
    line = run.said["a bad line"][-1]
    assert line.startswith(
        f"error: preprocess: {run.source / 'trips_a.csv'}: line 201 is not zone,stops,distance,minutes;"
    )
    assert f"resume with: kfrec run --resume {run.folder}" in line


def test_a_corrected_file_is_fetched_again(run: Resumed) -> None:
    assert f"{run.source / 'trips_a.csv'} has changed: download and later steps run again" in run.said["the file"]
    assert run.steps("the file") == ["download", "preprocess", "tfrecord", "train"]
    assert "train: stopped here" in run.said["the file"][-1]


def test_nothing_that_is_valid_is_done_again(run: Resumed) -> None:
    assert run.steps("nothing") == ["train"]
    assert not [line for line in run.said["nothing"] if "again" in line or "changed from" in line]


def test_a_changed_parameter_redoes_its_step_and_the_later_ones(run: Resumed) -> None:
    told = "parameter test_share changed from 0.2 to 0.4: preprocess and later steps run again"
    assert told in run.said["a parameter of preprocess"]
    assert run.steps("a parameter of preprocess") == ["preprocess", "tfrecord", "train"]


def test_a_changed_parameter_of_a_step_that_did_not_finish_redoes_nothing(run: Resumed) -> None:
    assert "parameter dense_lr changed from 0.1 to 0.05: train runs with it" in run.said["a parameter of train"]
    assert run.steps("a parameter of train") == ["train"]


def test_a_new_file_at_the_source_is_fetched(run: Resumed) -> None:
    told = f"{run.source / 'trips_b.csv'} is new: download and later steps run again"
    assert told in run.said["another file"] and run.steps("another file")[0] == "download"


def test_a_changed_extension_redoes_the_steps_that_use_it(run: Resumed) -> None:
    (told,) = [line for line in run.said["the extension"] if line.startswith("the extension trips 0.1.0 sha256:")]
    assert " is now trips 0.1.0 sha256:" in told and told.endswith(": download and later steps run again")
    assert run.steps("the extension") == ["download", "preprocess", "tfrecord", "train"]


def test_what_was_fetched_is_kept_when_the_source_is_gone(run: Resumed) -> None:
    (told,) = [
        line for line in run.said["no source"] if line.startswith("download ") and "keeps what it fetched" in line
    ]
    assert str(run.source) in told and run.steps("no source") == ["train"]


def test_a_resumed_run_tells_what_it_was_made_with_in_the_end(run: Resumed) -> None:
    import json

    from mlflow import MlflowClient

    summary = json.loads((run.folder / "summary.json").read_text())
    assert (summary["parameters"]["test_share"], summary["parameters"]["dense_lr"]) == (0.4, 0.05)
    assert summary["steps"]["preprocess"]["counts"] == {"test": 120, "train": 180}
    tags = MlflowClient(summary["mlflow"]["tracking_uri"]).get_run(summary["mlflow"]["run_id"]).data.tags
    for choice in ("dataset", "model_type", "task"):
        assert tags[f"kfrec.extension.{choice}"].startswith("trips 0.1.0 sha256:")
