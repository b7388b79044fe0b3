import json
import re
import sys
from pathlib import Path

import pytest

from components.progress import EVENTS, emit, parse_event, progress
from pipelines.screen import StepOutput


def test_a_job_emits_its_start_and_its_end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(EVENTS, "1")
    with progress("reading", total=10, unit="rows") as bar:
        bar.advance(4)
        bar.advance(6)
    events = [parse_event(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["done"] for event in events if event][:: len(events) - 1] == [0, 10]
    assert all(event and event["label"] == "reading" and event["total"] == 10 for event in events)


def test_nothing_is_written_to_stdout_when_nobody_reads_events(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(EVENTS, raising=False)
    emit("started", step="download")
    with progress("reading", total=1):
        pass
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("events", ["", "1"])
def test_a_job_of_no_units_shows_nothing(
    events: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(EVENTS, events)
    with progress("scoring", total=0, unit="samples"):
        pass
    assert capsys.readouterr() == ("", "")


def test_an_event_is_found_behind_a_launchers_prefix() -> None:
    assert parse_event('    [0]<stdout>:{"kfrec": "error", "message": "x"}') == {"kfrec": "error", "message": "x"}


@pytest.mark.parametrize("line", ["", "ordinary output", '{"kfrec": broken'])
def test_other_lines_are_no_events(line: str) -> None:
    assert parse_event(line) is None


def test_redirected_output_has_lines_and_no_carriage_returns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(EVENTS, raising=False)
    with progress("reading", total=10, unit="rows") as bar:
        bar.advance(10)
    shown = capsys.readouterr().err
    assert shown.startswith("reading: 100% |") and shown.count("\n") == 1 and "\r" not in shown


def test_a_finished_bar_of_one_update_has_a_rate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [1000.0]
    monkeypatch.delenv(EVENTS, raising=False)
    monkeypatch.setattr("time.time", lambda: now[0])
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress("scoring", total=100, unit="samples") as bar:
        now[0] += 4
        bar.advance(100)
    assert "[25.0 samples/s, 00:00 left]" in re.split("[\r\n]", capsys.readouterr().err.rstrip())[-1]


@pytest.mark.parametrize("terminal", [False, True])
def test_the_forecast_leaves_out_what_a_job_starts_with(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [1000.0]
    monkeypatch.delenv(EVENTS, raising=False)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("time.time", lambda: now[0])
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    with progress("training", total=102, unit="steps") as bar:
        now[0] += 60  # the first step compiles
        bar.advance(1)
        assert "? left" in capsys.readouterr().err
        for seconds in (11, 11):
            now[0] += seconds
            bar.advance(1)
        shown = re.split("[\r\n]", capsys.readouterr().err)
    assert re.search("18:0[89] left", [line for line in shown if line][-1])


@pytest.mark.parametrize("terminal", [False, True])
def test_the_first_forecast_of_a_training_leaves_out_its_first_step(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A step's events begin with one that nothing is done yet."""
    now = [1000.0]
    for clock in ("time.monotonic", "time.time", "tqdm.std.time"):
        monkeypatch.setattr(clock, lambda: now[0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    with StepOutput(tmp_path / "steps.log") as output:
        for seconds, done in ((0, 0), (60, 1), (11, 2), (11, 3)):
            now[0] += seconds
            event = {"kfrec": "progress", "label": "epoch 1/9", "unit": "steps", "done": done, "total": 102}
            output.write(json.dumps(event) + "\n")
            if done == 1:
                assert "? left" in capsys.readouterr().err
        shown = re.split("[\r\n]", capsys.readouterr().err)
    assert re.search("18:0[89] left", [line for line in shown if line][-1])


@pytest.mark.parametrize("terminal", [False, True])
def test_what_was_done_before_counts_for_the_share_and_not_for_the_rate(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(EVENTS, raising=False)
    now = [1000.0]
    for clock in ("time.monotonic", "time.time", "tqdm.std.time"):
        monkeypatch.setattr(clock, lambda: now[0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    with progress("training", total=4000, unit="samples", initial=2000) as bar:
        for _ in range(2):
            now[0] += 20
            bar.advance(500)
    line = re.split("[\r\n]", capsys.readouterr().err.rstrip())[-1]
    assert "75%" in line and "[25.0 samples/s, 00:40 left]" in line
