"""What a step may replace, and what it must leave alone."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from components.artifacts import open_artifact, publishing
from components.artifacts.folder import MANIFEST
from components.artifacts.publish import output_folder, remove_abandoned
from components.errors import KfrecError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with somebody's documents, an input of the step and an earlier output of it."""
    folder = tmp_path / "here"
    for name in ("documents", "source"):
        (folder / name).mkdir(parents=True)
        (folder / name / "thesis.txt").write_text("years of work")
    for name, step in (("input", "preprocess"), ("earlier", "tfrecord")):
        with publishing(folder / name, step=step) as staging:
            (staging.path / "data").write_text(name)
    monkeypatch.chdir(folder)
    return folder


def everything(folder: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def publish(output: str | Path, text: str = "new") -> None:
    inputs = {"parquet": open_artifact("input")}
    with publishing(output, step="tfrecord", inputs=inputs, reads=["source"]) as staging:
        (staging.path / "data").write_text(text)


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("", "the output folder is '', the working directory"),
        (".", "is or contains the working directory"),
        ("..", "is or contains the working directory"),
        ("/", "is or contains the working directory"),
        ("documents", "holds thesis.txt, which the tfrecord step did not write"),
        ("documents/../documents", "holds thesis.txt, which the tfrecord step did not write"),
        ("documents/thesis.txt", "is a file"),
        ("documents/thesis.txt/out", "a file stands where a folder is needed"),
        ("input", "is an input of this step"),
        ("input/out", "an input of this step; name a folder outside of it"),
        ("source", "is an input of this step"),
        ("source/out", "an input of this step; name a folder outside of it"),
        ("earlier/out", "lies inside the artifact"),
        ("x" * 300, "the name is too long"),
        ("circle", "symbolic links form a loop"),
        ("/proc/none", "is not there and cannot be made there"),
    ],
)
def test_what_is_not_the_steps_own_is_refused_in_one_line_and_left_as_it_was(
    output: str, line: str, here: Path
) -> None:
    (here / "circle").symlink_to("circle")
    before = everything(here)
    with pytest.raises(KfrecError) as refused:
        publish(output)
    assert line in str(refused.value) and "\n" not in str(refused.value)
    assert everything(here) == before


def test_the_parent_of_an_input_is_refused(tmp_path: Path) -> None:
    (tmp_path / "there" / "input").mkdir(parents=True)
    with pytest.raises(KfrecError, match=r"contains .*input, an input of this step"):
        output_folder(tmp_path / "there", "tfrecord", [tmp_path / "there" / "input"])


def test_an_artifact_of_another_step_is_refused(here: Path) -> None:
    with publishing("model", step="train") as staging:
        (staging.path / "weights").write_text("hours of work")
    with pytest.raises(KfrecError, match="holds an artifact of the step train, not of tfrecord"):
        publish("model")
    assert open_artifact("model").step == "train"


def test_a_file_that_somebody_put_into_an_earlier_output_is_refused(here: Path) -> None:
    (here / "earlier" / "notes.txt").write_text("mine")
    with pytest.raises(KfrecError, match=r"notes\.txt: not listed in _manifest\.json, .* move it away"):
        publish("earlier")
    assert (here / "earlier" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("kept", [0, 10, 60, None])
def test_an_earlier_output_is_replaced_also_where_its_manifest_is_cut_off(kept: int | None, here: Path) -> None:
    manifest = here / "earlier" / MANIFEST
    manifest.write_text(manifest.read_text()[:kept])
    publish("earlier")
    assert (here / "earlier" / "data").read_text() == "new"


def test_a_manifest_of_somebody_else_is_refused(here: Path) -> None:
    (here / "documents" / MANIFEST).write_text('{"name": "a web page"}')
    with pytest.raises(KfrecError, match="not a manifest of the tfrecord step"):
        publish("documents")


def test_an_empty_folder_and_a_new_one_are_taken(here: Path) -> None:
    (here / "empty").mkdir()
    for name in ("empty", "new/below"):
        publish(name)
        assert open_artifact(name).step == "tfrecord"


def test_links_are_followed_and_stay_links(here: Path, tmp_path: Path) -> None:
    disk = tmp_path / "big-disk"
    disk.mkdir()
    for number, name in enumerate(("link", "dangling")):
        (here / name).symlink_to(disk / name)
        if not number:
            (disk / name).mkdir()
        publish(name)
        publish(name, "again")
        assert (here / name).is_symlink()
        assert (disk / name / "data").read_text() == "again"


def test_what_appears_while_the_step_works_is_left_alone(here: Path) -> None:
    with pytest.raises(KfrecError, match="holds letter"), publishing("out", step="tfrecord") as staging:
        (staging.path / "data").write_text("new")
        (here / "out").mkdir()
        (here / "out" / "letter.txt").write_text("from somebody")
    assert [path.name for path in (here / "out").iterdir()] == ["letter.txt"]


def test_a_second_writer_is_refused_while_the_first_one_works(here: Path) -> None:
    with publishing("out", step="tfrecord") as staging:
        (staging.path / "data").write_text("first")
        with pytest.raises(KfrecError, match=f"is being written by process {os.getpid()}"):
            publish("out")
    assert (here / "out" / "data").read_text() == "first"


_WRITER = """
import sys, time
from components.artifacts import publishing
with publishing(sys.argv[1], step="tfrecord") as staging:
    (staging.path / "data").write_text("unfinished")
    (staging.scratch / "large").write_text("x")
    print("writing", flush=True)
    time.sleep(3600)
"""


def killed_writer(output: Path) -> None:
    """A process that begins to write an output and is killed."""
    process = subprocess.Popen([sys.executable, "-c", _WRITER, str(output)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "writing\n"
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_what_a_killed_process_left_is_removed_by_the_next_one(here: Path) -> None:
    killed_writer(here / "earlier")
    assert (here / ".earlier.partial").is_dir() and (here / "earlier" / "data").read_text() == "earlier"
    publish("earlier")
    assert (here / "earlier" / "data").read_text() == "new"
    assert not list(here.glob(".*"))


def test_a_process_killed_between_two_moves_loses_nothing(here: Path) -> None:
    killed_writer(here / "earlier")
    (here / "earlier").rename(here / ".earlier.partial" / "replaced")
    with pytest.raises(ZeroDivisionError), publishing("earlier", step="tfrecord"):
        raise ZeroDivisionError
    assert (here / "earlier" / "data").read_text() == "earlier"


def test_what_cannot_be_removed_at_the_end_is_removed_by_the_next_one(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A process that is just ending still writes there.
    busy, rmtree = here / ".earlier.partial" / "scratch" / "late", shutil.rmtree

    def removed_but_for_the_busy(path: Path, ignore_errors: bool = False) -> None:
        rmtree(path, ignore_errors=ignore_errors)
        busy.mkdir(parents=True, exist_ok=True)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", removed_but_for_the_busy)
        publish("earlier")
    assert busy.is_dir()
    assert remove_abandoned(here.glob(".*.partial")) == [here / ".earlier.partial"]
    assert not list(here.glob(".*"))


def test_only_what_dead_processes_left_is_swept_away(here: Path) -> None:
    killed_writer(here / "dead")
    (here / ".mine.partial").mkdir()
    (here / ".mine.partial" / "letter.txt").write_text("x")
    with publishing("alive", step="tfrecord") as staging:
        (staging.path / "data").write_text("x")
        assert remove_abandoned(here.glob(".*.partial")) == [here / ".dead.partial"]
    assert (here / ".mine.partial" / "letter.txt").exists() and (here / "alive" / "data").exists()
    with pytest.raises(KfrecError, match="holds files that no step wrote"):
        publish("mine")


def test_a_file_system_without_locks_is_written_to_all_the_same(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("components.artifacts.publish.fcntl.flock", refuse)
    publish("out")
    assert open_artifact("out").step == "tfrecord"
