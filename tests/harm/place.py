"""A folder with everything that a user may have at hand, and what a command said and did there."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from components.artifacts import publishing
from components.steps.catalog import STEPS, TfrecordParameters
from components.steps.command import command

# Artifacts by the name that steps give them; the small shop's data and model are what evaluate and register read.
RAW, PARQUET, TFRECORD, MODEL, EVALUATION = "raw", "parquet", "tfrecord", "model", "evaluation"
SHOP = "shop"
# Raw rows of the shop, which predict reads, and served ones; and what a step is told beside its artifacts.
ROWS, SERVED = "rows", "served"
OPTIONS = {
    "predict": [f"--model_version={MODEL}", f"--rows={ROWS}"],
    "recommend": [f"--model_version={MODEL}"],
    "feedback": [
        f"--model_version={MODEL}", f"--served={SERVED}", "--outcomes=outcomes.csv", "--known_until=2026-11-30 00:00",
    ],
}  # fmt: skip


def build(folder: Path) -> None:
    """Makes the artifacts, all real but the model, whose training would take a minute."""
    from components.download.step import run as download
    from components.evaluate.step import run as evaluate
    from components.preprocess.step import run as preprocess
    from components.tfrecord.step import run as tfrecord
    from tests.fakes.small_shop import make_data, make_model

    small = STEPS["download"].of(synthetic_users=40, synthetic_items=60, synthetic_categories=5)
    download(small, raw=folder / RAW)
    preprocess(STEPS["preprocess"].of(workers=1), raw=folder / RAW, parquet=folder / PARQUET)
    tfrecord(TfrecordParameters(workers=1), parquet=folder / PARQUET, tfrecord=folder / TFRECORD)
    data = make_data(folder / SHOP, rows=200, dataset="amazon_reviews")
    (folder / ROWS).mkdir()
    (folder / ROWS / "rows.csv").write_text("user,history,item\n" + "U1,B000|B001,B002\n" * 600)
    _serve(folder)
    make_model(folder / "exported", data)
    with publishing(folder / MODEL, step="train") as staging:
        shutil.copytree(folder / "exported", staging.path, dirs_exist_ok=True)
        (staging.path / "_manifest.json").unlink(missing_ok=True)
    shutil.rmtree(folder / "exported")
    evaluate(STEPS["evaluate"].of(), tfrecord=data, model=folder / MODEL, evaluation=folder / EVALUATION)
    (folder / "documents").mkdir()
    (folder / "documents" / "thesis.txt").write_text("years of work")


def _serve(folder: Path) -> None:
    """Served rows of the model, and the outcomes of every third one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from components.served_rows.schema import SCHEMA, file_of

    at = datetime(2026, 11, 28, 10, tzinfo=UTC)
    columns = json.dumps({"user": "U1", "history": ["B000"], "item": "B002"})
    row = dict.fromkeys(SCHEMA.names) | {"row": 0, "time": at, "model": MODEL, "version": "", "variant": "champion"}
    rows = [row | {"request_id": f"r{n}", "columns": columns, "probability": n / 60, "user": "U1"} for n in range(60)]
    path = folder / SERVED / file_of(at, "test", 0)
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)
    (folder / "outcomes.csv").write_text("request_id\n" + "".join(f"r{n}\n" for n in range(0, 60, 3)))


def inputs_of(step: str) -> dict[str, str]:
    """The folders that a step reads here, by the names of its inputs."""
    judged = step in ("evaluate", "register")
    return {name: SHOP if judged and name == TFRECORD else name for name in STEPS[step].inputs}


def folders_of(step: str, output: str = "out", **others: str) -> list[str]:
    """The folders of a step's command line.

    Args:
        step: its name.
        output: what it is to write.
        others: inputs by name, instead of those here.
    """
    places = inputs_of(step) | others | dict.fromkeys(STEPS[step].outputs, output)
    return [*(f"--{name}={place}" for name, place in places.items()), *OPTIONS.get(step, ())]


def everything(folder: Path) -> dict[str, tuple[str, int]]:
    """What is in a folder, by path: what kind it is, and a checksum of its content or of where it leads."""
    found = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = "link", zlib.crc32(str(path.readlink()).encode())
        elif path.is_file():
            found[name] = "file", zlib.crc32(path.read_bytes())
        else:
            found[name] = "folder", 0
    return found


@dataclass(frozen=True)
class Outcome:
    """What came of a command.

    Attributes:
        status: its exit status.
        said: what it wrote, to stdout and stderr.
        changed: paths that are other than before, or new, or gone.
    """

    status: int | None
    said: str
    changed: list[str] = field(default_factory=list)

    def without(self, made: set[str]) -> Outcome:
        """The same but for these paths and what is below them, which may be made."""
        left = [path for path in self.changed if not any(path == name or path.startswith(f"{name}/") for name in made)]
        return replace(self, changed=left)

    def surprise(self, *named: str) -> str:
        """What is wrong with how a bad input was taken; empty where nothing is.

        Args:
            named: words that the one line has to hold.
        """
        lines = [line for line in self.said.splitlines() if line.startswith("error:")]
        if self.status not in (1, 2):
            return f"exit status {self.status}: {self.said[-500:]}"
        if "Traceback" in self.said or len(lines) != 1:
            return f"{len(lines)} lines: {self.said[-1500:]}"
        if len(lines[0]) > 700:
            return f"a line of {len(lines[0])} characters: {lines[0]}"
        if missing := [word for word in named if word not in lines[0]]:
            return f"does not name {missing}: {lines[0]}"
        if self.changed:
            return f"changed {self.changed[:5]}: {lines[0]}"
        return ""


def run_here(arguments: list[str], capture: pytest.CaptureFixture[str]) -> Outcome:
    """Runs ``kfrec ...``, ``worker ...`` or ``<step> ...`` in this process, in the working folder."""
    from components.train import worker
    from pipelines import cli

    program, *rest = arguments
    runs = {"kfrec": cli.main, "worker": worker.main}
    return outcome_of(lambda: runs[program](rest) if program in runs else command(program, rest), capture)


def outcome_of(run: Callable[[], int | None], capture: pytest.CaptureFixture[str]) -> Outcome:
    """What comes of a call in this process, in the working folder."""
    capture.readouterr()
    before = everything(Path.cwd())
    try:
        status = run()
    except SystemExit as left:
        status = int(left.code or 0) if not isinstance(left.code, str) else 1
    said = capture.readouterr()
    after = everything(Path.cwd())
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return Outcome(status, said.out + said.err, changed)
