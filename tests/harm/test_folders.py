"""Every step with outputs that are not its own, and with inputs that are missing, damaged or of something else."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import pytest

from components.artifacts.folder import MANIFEST, Artifact, FileEntry
from components.steps.catalog import STEPS
from tests.harm.place import RAW, folders_of, inputs_of, run_here

pytestmark = pytest.mark.slow

# find asks for a prefix of data versions before it looks at anything.
_BEFORE = {"find": ["--data_prefix=versions"]}


def _output_cases(step: str) -> dict[str, str]:
    """Places that are not the step's to write, by what is wrong with them."""
    others = [name for name in (RAW, "parquet") if name not in inputs_of(step).values()]
    cases = {
        "empty": "",
        "blank": " ",
        "working folder": ".",
        "its parent": "..",
        "root": "/",
        "documents": "documents",
        "documents by a detour": "documents/../documents/.",
        "file": "documents/thesis.txt",
        "below a file": "documents/thesis.txt/out",
        "long name": "x" * 300,
        "circle": "circle",
        "below proc": "/proc/none/out",
        "link to documents": "link",
        "inside an artifact": "raw/out",
    }
    cases |= {f"input {name}": place for name, place in inputs_of(step).items()}
    cases |= {f"inside input {name}": f"{place}/out" for name, place in inputs_of(step).items()}
    if others and STEPS[step].outputs.keys() != {others[0]}:
        cases["artifact of another step"] = others[0]
    return cases


# One step meets every case. The others, whose folders go the same way, meet a few and those of their own inputs.
_ONE = "tfrecord"
_OF_EVERY_STEP = ("empty", "documents", "link to documents", "below a file", "artifact of another step")
OUTPUT_CASES = [
    pytest.param(step, place, id=f"{step}-{wrong}")
    for step in STEPS
    for wrong, place in _output_cases(step).items()
    if step == _ONE or wrong in _OF_EVERY_STEP or "input" in wrong
]


@pytest.mark.parametrize(("step", "place"), OUTPUT_CASES)
def test_an_output_that_is_not_the_steps_own_is_refused(
    step: str, place: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "circle").symlink_to("circle")
    (here / "link").symlink_to("documents")
    outcome = run_here([step, *folders_of(step, place), *_BEFORE.get(step, ())], capfd)
    assert not outcome.surprise(step)


def _entry(path: Path, name: str) -> FileEntry:
    checksum = google_crc32c.Checksum(path.read_bytes()).digest()
    return FileEntry(name, path.stat().st_size, base64.b64encode(checksum).decode())


def _rewritten(folder: Path, **changes: object) -> None:
    """Changes the manifest of an artifact, its digest being right again."""
    body = json.loads((folder / MANIFEST).read_text()) | changes
    files = tuple(FileEntry(**entry) for entry in body["files"])
    body["digest"] = Artifact(folder, body["step"], files, {}, {}, {}).digest
    (folder / MANIFEST).write_text(json.dumps(body))


def _cut(folder: Path) -> None:
    path = max((p for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST), key=lambda p: p.stat().st_size)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _one_gone(folder: Path) -> None:
    next(p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != MANIFEST).unlink()


def _text(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / MANIFEST).write_text(text)


def _replaced_by_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("not a folder")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": shutil.rmtree,
    "a file": _replaced_by_file,
    "no manifest": lambda folder: (folder / MANIFEST).unlink(),
    "empty manifest": _text(""),
    "manifest cut off": lambda folder: _text((folder / MANIFEST).read_text()[:200])(folder),
    "manifest a list": _text("[]"),
    "manifest null": _text("null"),
    "manifest a number": _text("7"),
    "manifest not text": lambda folder: (folder / MANIFEST).write_bytes(b"\xff\xfe\x00\x01"),
    "manifest without files": _text('{"format": 1, "step": "download"}'),
    "manifest with odd files": _text('{"format": 1, "step": "download", "files": 3, "digest": ""}'),
    "digest edited": lambda folder: _text((folder / MANIFEST).read_text().replace('"digest": "', '"digest": "0'))(
        folder
    ),
    "format 99": lambda folder: _rewritten(folder, format=99),
    "format of text": lambda folder: _rewritten(folder, format="one"),
    "another step": lambda folder: _rewritten(folder, step="register"),
    "a step of a number": lambda folder: _rewritten(folder, step=3),
    "a listed file is gone": _one_gone,
    "a listed file is cut off": _cut,
    "a listed file outside": lambda folder: _rewritten(
        folder, files=[vars(_entry(folder.parent / "documents" / "thesis.txt", "../documents/thesis.txt"))]
    ),
    "a listed file anywhere": lambda folder: _rewritten(
        folder,
        files=[vars(_entry(folder.parent / "documents" / "thesis.txt", str(folder.parent / "documents/thesis.txt")))],
    ),
    "nothing is listed": lambda folder: _rewritten(folder, files=[]),
}
_OF_EVERY_INPUT = ("gone", "empty manifest", "another step", "a listed file is cut off", "nothing is listed")
INPUT_CASES = [
    pytest.param(step, name, damage, id=f"{step}-{name}-{damage}")
    for step in STEPS
    for name in STEPS[step].inputs
    for damage in DAMAGES
    if step == _ONE or damage in _OF_EVERY_INPUT
]


@pytest.mark.parametrize(("step", "name", "damage"), INPUT_CASES)
def test_a_damaged_input_is_refused(
    step: str, name: str, damage: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = inputs_of(step)[name]
    DAMAGES[damage](here / place)
    outcome = run_here([step, *folders_of(step), *_BEFORE.get(step, ())], capfd)
    assert not outcome.surprise(step, place)
