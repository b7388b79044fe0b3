"""The benchmark's command line."""

import json
from pathlib import Path

import pytest

import benchmarks.__main__ as command


def test_an_unknown_stage_is_refused_with_the_names_of_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "tfrecord"])
    with pytest.raises(SystemExit) as stopped:
        command.main()
    assert stopped.value.code == 2
    assert "unknown stage tfrecord; the stages are startup, convert," in capsys.readouterr().err


def test_a_stage_that_fails_keeps_the_others_figures_and_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = {"stage": "input", "name": "rows", "unit": "s", "values": [1.0], "reference": [1.0, 3.0], "median": 1.0,
              "ratio": None, "target": None, "target_ratio": None, "met": None, "note": ""}  # fmt: skip
    monkeypatch.setattr(command, "_stage", lambda stage, full: (stage == "read", [figure] if stage == "read" else []))
    monkeypatch.setattr("sys.argv", ["benchmarks", "convert", "read", "--output", str(tmp_path / "out.json")])
    assert command.main() == 1
    assert json.loads((tmp_path / "out.json").read_text())["figures"] == [figure]
    said = capsys.readouterr()
    assert "| input | rows | 1 s | 1 to 1 (1) | 2 |" in said.out  # the median of the reference
    assert "error: convert failed" in said.err
