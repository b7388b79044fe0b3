"""A package beside kfrec brings a data set with floats and lists, a model with two optimizers, and its own task."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOY = Path(__file__).parents[1] / "toy"
ROOT = TOY.parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of processes that have the package installed: its files, and what an installer notes of it."""
    site = tmp_path_factory.mktemp("site")
    shutil.copytree(TOY / "toy", site / "toy")
    declared = tomllib.loads((TOY / "pyproject.toml").read_text())["project"]
    noted = site / "toy-0.1.0.dist-info"
    noted.mkdir()
    (noted / "METADATA").write_text(f"Metadata-Version: 2.1\nName: toy\nVersion: {declared['version']}\n")
    groups = ["\n".join((f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())))
              for group, entries in declared["entry-points"].items()]  # fmt: skip
    (noted / "entry_points.txt").write_text("\n\n".join(groups) + "\n")
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH", ""), str(ROOT), str(site))))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    return {**environment, "PYTHONPATH": path}


def kfrec(installed: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipelines.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=installed, timeout=400)


def test_it_compiles_to_pipelines_with_its_own_parameters(installed: dict[str, str], tmp_path: Path) -> None:
    done = kfrec(installed, "compile", "--model", "toy", "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    spec = next(yaml.safe_load_all((tmp_path / "toy-training.yaml").read_text()))
    shown = set(spec["root"]["inputDefinitions"]["parameters"])
    assert {"width", "table_lr", "dense_lr", "toy_offers", "test_share", "threshold", "hit_floor", "epochs"} <= shown
    assert not {"embedding_dim", "lr", "synthetic_users", "max_sequence_length", "calibration_bins"} & shown


@pytest.mark.slow
def test_it_runs_to_a_registered_model(installed: dict[str, str], tmp_path: Path) -> None:
    given = [word for value in ("train_seed=1", "epochs=4", "global_batch_size=200", "bootstrap_samples=100")
             for word in ("--set", value)]  # fmt: skip
    done = kfrec(installed, "run", "--model", "toy", "--workdir", str(tmp_path), "--workers", "2", *given)
    assert done.returncode == 0, done.stderr
    summary = json.loads(Path(done.stdout.splitlines()[-1]).read_text())
    assert set(summary["metrics"]) == {
        "test_hit_rate", "train_hit_rate", "train_samples_per_second", "time_to_train"
    }  # fmt: skip
    assert summary["metrics"]["test_hit_rate"] > 0.64
    assert summary["registered"]["alias"] == "champion"
    assert "test hit rate 0." in done.stdout
    assert f"Right {summary['metrics']['test_hit_rate']:.1%}" in Path(summary["artifacts"]["report"]).read_text()
    spec = yaml.safe_load((Path(summary["artifacts"]["tfrecord"]) / "feature_spec.yaml").read_text())
    assert spec["feature_spec"]["price"] == {"dtype": "float32"}
    assert spec["feature_spec"]["tags"]["dimensions"] == [3]
