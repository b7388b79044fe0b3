"""A package beside kfrec brings a data set with floats and lists, a model with two optimizers, and its own task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from pipelines.cli import main
from tests.pipelines.conftest import Run
from tests.pipelines.toy_package import toy_installed


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with toy_installed(tmp_path / "site", monkeypatch):
        yield


def test_it_compiles_to_pipelines_with_its_own_parameters(tmp_path: Path) -> None:
    assert main(["compile", "--model", "toy", "--output", str(tmp_path)]) == 0
    spec = next(yaml.safe_load_all((tmp_path / "toy-training.yaml").read_text()))
    shown = set(spec["root"]["inputDefinitions"]["parameters"])
    assert {"width", "table_lr", "dense_lr", "toy_offers", "test_share", "threshold", "hit_floor", "epochs"} <= shown
    assert not {"embedding_dim", "lr", "synthetic_users", "max_sequence_length", "calibration_bins"} & shown


@pytest.mark.slow
def test_it_runs_to_a_registered_model(tmp_path: Path, in_process: Callable[..., Run]) -> None:
    given = [word for value in ("train_seed=1", "epochs=4", "global_batch_size=200", "bootstrap_samples=100",
                                "tfrecord_workers=1") for word in ("--set", value)]  # fmt: skip
    done = in_process(tmp_path / "runs", "--model", "toy", "--workers", "2", *given)
    summary = done.summary
    assert set(summary["metrics"]) == {
        "test_hit_rate", "train_hit_rate", "train_samples_per_second", "time_to_train"
    }  # fmt: skip
    assert summary["metrics"]["test_hit_rate"] > 0.64
    assert summary["registered"]["alias"] == "champion"
    assert "test hit rate 0." in done.out
    assert f"Right {summary['metrics']['test_hit_rate']:.1%}" in Path(summary["artifacts"]["report"]).read_text()
    spec = yaml.safe_load((Path(summary["artifacts"]["tfrecord"]) / "feature_spec.yaml").read_text())
    assert spec["feature_spec"]["price"] == {"dtype": "float32"}
    assert spec["feature_spec"]["tags"]["dimensions"] == [3]
