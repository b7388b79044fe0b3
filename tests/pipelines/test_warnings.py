"""Data checks above their limits, from the terminal of a run to the list of runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.checks.findings import brief, describe, exceeded
from components.checks.profile import read_profile
from pipelines.cli import main
from pipelines.defaults import OF_REFIT, Pipeline
from pipelines.runs.record import FAILED, FINISHED, RunRecord
from tests.pipelines.conftest import Run

_GIVEN = (
    "synthetic_users=60", "synthetic_items=100", "embedding_dim=4", "epochs=1", "global_batch_size=32", "auc_floor=0",
    "bootstrap_samples=100", "preprocess_workers=1", "tfrecord_workers=1", "shortest_sequence_for_user=5",
)  # fmt: skip


@pytest.mark.slow
def test_every_warning_of_a_run_is_on_the_terminal_in_its_summary_its_report_and_the_list(
    tmp_path: Path, in_process: Callable[..., Run], capfd: pytest.CaptureFixture[str]
) -> None:
    given = [word for value in _GIVEN for word in ("--set", value)]
    first = in_process(tmp_path / "runs", "--model", "din", *given).summary
    assert first["warnings"] == []
    reference = first["artifacts"]["parquet"]
    words = ("--set", f"reference_profile={reference}", "--set", "psi_limit=0", "--set", "seed=7")
    second = in_process(tmp_path / "runs", "--model", "din", *given, *words)
    profile = read_profile(Path(second.summary["artifacts"]["parquet"]) / "profile.json")
    assert profile is not None
    above = exceeded(profile.findings)
    told = [f"data check: {describe(finding)}" for finding in above]
    assert len(above) > 2
    assert [line.removeprefix("preprocess ") for line in second.err.splitlines() if "data check: " in line] == told
    assert [line for line in second.out.splitlines() if line.startswith("data check: ")] == told
    assert [warning["message"] for warning in second.summary["warnings"]] == told
    report = Path(second.summary["artifacts"]["report"]).read_text()
    assert report.index("<h2>Data checks</h2>") < report.index("<h2>Training</h2>")
    assert all(describe(finding) in report for finding in above)
    assert main(["runs", "--json", "--workdir", str(tmp_path / "runs")]) == 0
    listed = json.loads(capfd.readouterr().out)
    assert [run["warnings"] for run in listed] == [[], [brief(finding) for finding in above]]


def test_the_list_of_runs_has_the_number_and_the_first_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, count in (("none", 0), ("one", 1), ("three", 3)):
        (tmp_path / name).mkdir()
        warnings = [{"about": f"psi reviews {i}", "message": "above"} for i in range(count)]
        steps = {f"{of}preprocess": {"outputs": {}, "warnings": warnings} for of in ("", OF_REFIT)}
        RunRecord(tmp_path / name, Pipeline(model="din"), {}, "", started=1.0, steps=steps, state=FINISHED).write()
    assert main(["runs", "--workdir", str(tmp_path)]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert lines["one"].endswith(" 1: psi reviews 0")
    assert lines["three"].endswith(" 3: psi reviews 0, psi reviews 1, …")
    assert "psi" not in lines["none"]


def test_runs_of_wrong_paths_do_not_fill_the_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made: dict[str, Any] = {"outputs": {}}
    reached = {"1-path": {}, "2-column": {"find": made, "download": made}, "3-loss": {"preprocess": made}, "4-path": {}}
    for number, (name, steps) in enumerate(reached.items()):
        (tmp_path / name).mkdir()
        RunRecord(tmp_path / name, Pipeline(), {}, "", started=float(number), steps=steps, state=FAILED).write()
    assert main(["runs", "--workdir", str(tmp_path)]) == 0
    *lines, last = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["3-loss", "4-path"]
    assert last == "2 that failed before they read the data are left out; --all shows them"
    assert main(["runs", "--all", "--workdir", str(tmp_path)]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == list(reached)
