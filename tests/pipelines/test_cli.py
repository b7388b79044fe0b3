import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from mlflow import MlflowClient

from components import registry
from components.images import VERSION
from pipelines.cli import main
from pipelines.defaults import PIPELINES, Pipeline
from pipelines.parameters import checked, pipeline_parameters
from pipelines.runs.record import RunRecord
from tests.fakes.handler import free_port


@pytest.mark.parametrize("model", ["sim", "din"])
def test_every_parameter_of_a_model_is_listed(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parameters", "--model", model]) == 0
    shown = capsys.readouterr().out
    for kind in PIPELINES:
        for name, parameter in pipeline_parameters(Pipeline(kind, model)).items():
            assert f"  {name} " in shown and parameter.help in shown, name


def test_the_models_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert main(["models"]) == 0
    *installed, last = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in installed] == registry.names(registry.MODELS)
    assert last == f"no model is registered at sqlite:///{tmp_path / 'runs' / 'mlflow.db'}"


@pytest.mark.parametrize("command", [["run"], ["submit"], ["parameters"], ["compile"]])
def test_a_model_that_is_not_installed_is_one_line(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--model", "simm"]) == 2
    there = ", ".join(registry.names(registry.MODELS))
    assert capsys.readouterr().err == f"error: no model 'simm': did you mean sim? there are {there}\n"


def test_a_model_is_no_parameter(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--set", "model_type=din"]) == 2
    assert "choose the model with --model din" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_ends_a_command_quietly() -> None:
    command = f"{sys.executable} -m pipelines.cli parameters | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "parameter" and not done.stderr


@pytest.mark.parametrize(
    ("assignment", "line"),
    [
        ("epoch=3", "error: unknown parameter epoch: did you mean epochs?"),
        ("x=3", "error: unknown parameter x: kfrec parameters --pipeline training --model sim lists them"),
        (
            "negative_sequence_length=500",
            "error: parameter negative_sequence_length=500 is above max_sequence_length=100",
        ),
        ("epochs", "error: --set epochs: write it as name=value"),
        ("epochs=many", "error: parameter epochs='many' is not a whole number"),
        ("global_batch_size=0", "error: parameter global_batch_size='0' must be at least 1"),
    ],
)
def test_a_bad_parameter_stops_the_run_before_anything_is_written(
    assignment: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["run", "--workdir", str(tmp_path / "runs"), "--set", assignment])
    assert status == 2
    assert capsys.readouterr().err.startswith(line)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("pipeline", ["training", "retraining"])
def test_an_environment_without_some_steps_says_which_extras_are_needed(
    pipeline: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the image kfrec-cpu."""
    absent = ("nvtabular", "orjson", "horovod")
    monkeypatch.setattr("pipelines.local.find_spec", lambda name: None if name in absent else find_spec(name))
    assert main(["run", "--pipeline", pipeline, "--workdir", str(tmp_path / "runs")]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: kfrec run needs nvtabular, orjson, horovod, which this environment lacks; install "
        "kfrec[preprocess,train] into it, or start the run on a cluster with kfrec submit, where each step has "
        "its own image"
    ]
    assert not (tmp_path / "runs").exists()


def test_a_workdir_that_is_a_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs").write_text("")
    assert main(["run", "--workdir", str(tmp_path / "runs")]) == 2
    assert "a file stands where a folder is needed; choose another folder" in capsys.readouterr().err


def test_a_workdir_in_a_bucket_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--workdir", "gs://bucket/runs"]) == 2
    assert capsys.readouterr().err == "error: --workdir gs://bucket/runs is a URI; name a folder of this machine\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("option", "name"), [("elsewhere", "source"), ("2", "workers")])
def test_two_values_of_a_parameter_are_refused_before_anything_is_written(
    option: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workdir = tmp_path / "runs"
    assert main(["run", "--workdir", str(workdir), f"--{name}", option, "--set", f"{name}=1"]) == 2
    assert capsys.readouterr().err == f"error: --{name} {option} contradicts --set {name}=1; leave one of them out\n"
    assert not workdir.exists()


@pytest.mark.parametrize("uri", ["", "sqlite:///{ready}"])
def test_a_workdir_that_nothing_can_be_written_to_is_one_line(
    uri: str, database: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.format(ready=database))
    assert main(["run", "--workdir", "/proc/runs"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: /proc/runs")


def test_a_store_that_cannot_be_used_stops_the_run_before_its_first_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "mlflow.db").write_text("notes, whatever the name says")
    assert main(["run", "--workdir", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {tmp_path}/mlflow.db: is not an SQLite database")
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_ui_says_how_to_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "mlflow.db").touch()
    assert main(["ui", "--print-only", "--workdir", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert f"MLFLOW_BACKEND_STORE_URI=sqlite:///{tmp_path}/mlflow.db KFREC_UI_TOKEN=" in shown
    assert " mlflow ui --port 5000 --workers 1 " in shown, "mlflow's default is four"


def test_a_ui_that_does_not_start_leaves_the_environment_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mlflow.db").write_text("no database")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    before = dict(os.environ)
    assert main(["ui", "--port", str(free_port())]) != 0
    assert "mlflow.db" in capsys.readouterr().err and dict(os.environ) == before


def test_ui_opens_the_page_of_the_runs(
    empty_database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    database = shutil.copy(empty_database, tmp_path)
    client = MlflowClient(f"sqlite:///{database}")
    experiment = client.create_experiment("reviews")
    client.create_run(experiment)
    assert main(["ui", "--print-only", "--workdir", str(tmp_path)]) == 0
    page = rf"http://localhost:5000/\?token=[\w-]{{40,}}#/experiments/{experiment}/runs\?workflowType=machine_learning "
    assert re.match(page, capsys.readouterr().out)


def test_a_model_takes_the_parameters_of_another_data_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parameters", "--model", "dlrm", "--dataset", "tabular"]) == 0
    shown = capsys.readouterr().out
    assert "  table_schema " in shown and "  frequency_threshold " not in shown


@pytest.mark.parametrize(
    ("command", "model"),
    [("run", "sim"), ("run", "din"), ("run", "dien"), ("compile", "sim"), ("parameters", "sim"), ("submit", "sim")],
)
def test_a_model_of_histories_is_refused_on_data_without_them_before_anything_is_written(
    command: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([command, "--model", model, "--dataset", "tabular"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: model {model} learns from lists (positive_history")
    assert "which data set tabular does not have" in said and not list(tmp_path.iterdir())


TABLE = "split: {by: random, share: 0.2}\nlabel: {column: clicked}\ncolumns: {age: {role: numeric}%s}\n"


@pytest.mark.parametrize(
    ("model", "dataset", "task", "proposed"),
    [
        ("wide_and_deep", "criteo", "", "click"),
        ("wide_and_deep", "tabular", "", "click"),
        ("logistic_regression", "tabular", "ranking", "click"),
        ("din", "amazon_reviews", "ranking", "click"),
        ("sasrec", "movielens", "ranking", "click"),
        ("din", "events", "question_answering", "click"),
        ("electra", "text", "question_answering", "replaced_token"),
    ],
)
def test_a_task_that_the_data_do_not_serve_is_refused_before_anything_is_written(
    model: str,
    dataset: str,
    task: str,
    proposed: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "schema.yaml").write_text(TABLE % "")
    monkeypatch.chdir(tmp_path)
    chosen = ["--model", model, "--dataset", dataset, *(["--task", task] if task else [])]
    assert main(["run", *chosen, "--source", "source"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: task {task or 'ranking'} needs a group for ") and said.count("\n") == 1
    assert f"of data set {dataset} do not have; choose --task {proposed}, or data with a group" in said
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_table_with_a_group_is_ranked(tmp_path: Path) -> None:
    (tmp_path / "schema.yaml").write_text(TABLE % ", visit: {role: group}")
    pipeline = Pipeline(model="wide_and_deep", dataset="tabular")
    assert checked({"source": str(tmp_path)}, pipeline) == {"source": str(tmp_path)}
    assert checked({"source": "s3://shop/tables"}, pipeline)  # whose schema is not known yet


def test_more_workers_than_cores_are_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    assert main(["run", "--workers", "64", "--workdir", str(tmp_path / "runs")]) == 2
    assert capsys.readouterr().err == "error: parameter workers=64: this machine has 2 cores; give at most 2\n"


@pytest.mark.parametrize("name", ["warm_start_path", "continue_path"])
def test_a_model_to_start_from_that_is_not_there_is_told_before_the_first_step(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--workdir", str(tmp_path / "runs"), "--set", f"{name}=mdoel"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: parameter {name}=mdoel: no such folder; give the folder or URI of a model")
    assert not (tmp_path / "runs").exists()


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0 and capsys.readouterr().out == f"kfrec {VERSION}\n"


def test_a_locale_without_the_characters_of_a_message_does_not_end_a_command(tmp_path: Path) -> None:
    folder = tmp_path / "20261126-100000-aaaa"
    folder.mkdir()
    record = RunRecord(folder, Pipeline(), {}, "sqlite:////x.db", state="failed", message="Größe … ←")
    record.write()
    plain = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    command = [sys.executable, "-m", "pipelines.cli", "runs", "--workdir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, env=os.environ | plain, check=True)
    assert done.stdout.decode().rstrip().endswith("Größe … ←")


@pytest.mark.parametrize("choice", ["dataset", "task"])
def test_a_choice_that_is_not_installed_is_one_line(choice: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", f"--{choice}", "tabulr"]) == 2
    assert "tabulr" in capsys.readouterr().err.splitlines()[0]


@pytest.mark.parametrize("choice", ["dataset", "task"])
def test_a_choice_is_no_parameter(choice: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--set", f"{choice}=tabular"]) == 2
    assert f"choose it with --{choice} tabular" in capsys.readouterr().err


@pytest.mark.slow
def test_compiled_pipelines_of_another_data_set_have_their_own_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", "--model", "dlrm", "--dataset", "tabular", "--output", str(tmp_path)]) == 0
    assert "have no registry; set KFREC_REGISTRY" in capsys.readouterr().err
    text = (tmp_path / "dlrm-tabular-training.yaml").read_text()
    assert "table_schema" in text and "kfrec-dlrm-tabular-training" in text


def test_a_data_set_for_every_model_is_not_compiled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "--dataset", "tabular", "--output", str(tmp_path)]) == 2
    assert "need a --model" in capsys.readouterr().err
