"""What ``kfrec parameters`` prints is what ``kfrec run`` uses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from components import registry
from components.parameters import plain
from pipelines.cli import main
from pipelines.defaults import Pipeline
from pipelines.parameters import pipeline_parameters
from pipelines.runs.record import read_record

_VALUE = re.compile(r"^  (\w+) +(\(empty\)|\S+) ")


@pytest.fixture(autouse=True)
def nothing_runs(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.local._finish", lambda *given: None)


def printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    assert main(["parameters", *words]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    return {match[1]: match[2].replace("(empty)", "") for line in lines if (match := _VALUE.match(line))}


@pytest.mark.slow
@pytest.mark.parametrize("source", ["synthetic", "own"])
@pytest.mark.parametrize("model", registry.names(registry.MODELS))
def test_the_listed_values_are_those_of_a_run_on_any_data(
    model: str, source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--model", model, "--set", f"source={source}", "--set", "test_share=0.3", "--set", "epochs=7"]
    if registry.model(model).dataset != "criteo":
        del words[4:6]
    shown = printed(words, capsys)
    assert main(["run", *words]) == 0
    told = capsys.readouterr().err
    (folder,) = (tmp_path / "runs").glob("2*")
    ran = read_record(folder).parameters
    assert {name: str(value) for name, value in ran.items()} == {name: shown[name] for name in ran}
    # No line if the model's defaults for its data set are the same everywhere.
    line = next((line for line in told.splitlines() if line.startswith("defaults: ")), "")
    own = pipeline_parameters(Pipeline(model=model))
    differing = {name for name, value in ran.items() if value != own[name].plain_default}
    assert {name for name in differing if f"{name}={ran[name]}" not in line} == {"epochs", "cache_dir"} | (
        {"source"} if source == "own" else set()
    ) | ({"test_share"} & differing)


def test_a_value_that_is_not_the_steps_is_listed_with_whose_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parameters", "--model", "wide_and_deep"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")}
    assert re.search(
        r" 0\.05 +model wide_and_deep on this machine .*; kfrec submit has 0\.02, with --size small 0\.05$",
        lines["linear_learning_rate"],
    )
    assert re.search(r" local +step .*; kfrec submit has mpijob$", lines["launcher"])
    assert all(re.search(r" (12345|1\.0) +step ", lines[name]) for name in ("seed", "out_of_vocabulary_limit"))
    assert re.search(r" kfrec-ranking +task ranking ", lines["registered_model"])


def test_what_is_set_is_no_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parameters", "--model", "wide_and_deep", "--set", "linear_learning_rate=0.3"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  linear_learning_rate ")]
    assert line.split()[1:3] == ["0.3", "you"] and "kfrec submit has" not in line


def test_the_reference_has_the_local_defaults_beside_the_steps() -> None:
    from components.steps.reference import reference

    section = reference().partition("## model wide_and_deep")[2].partition("\n## ")[0]
    rows = {
        row.split("|")[1].strip(): [cell.strip() for cell in row.split("|")]
        for row in section.splitlines()
        if "|" in row
    }
    local = registry.model("wide_and_deep").local_defaults
    for name, value in local.items():
        assert rows[f"`{name}`"][3] == f"`{plain(value)}`", name
    assert rows["`epochs`"][2] == "`20`"


@pytest.mark.slow
def test_a_local_default_does_not_forbid_the_empty_value_that_the_parameter_has_elsewhere(tmp_path: Path) -> None:
    assert main(["run", "--workdir", str(tmp_path), "--set", "cache_dir="]) == 0
    (folder,) = tmp_path.glob("2*")
    assert read_record(folder).parameters["cache_dir"] == ""
