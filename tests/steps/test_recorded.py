"""What a manifest records beside the parameters: the code of extensions, and files that parameters name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from components.parameters import as_plain
from components.steps.catalog import STEPS
from components.steps.recorded import recorded
from pipelines.defaults import Pipeline
from pipelines.definitions import component, training_pipeline
from tests.pipelines.installed import edit, forget, installed


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    component.cache_clear()
    with installed("regression", tmp_path / "site", monkeypatch) as folder:
        yield folder
    component.cache_clear()


def extension_of(step: str, **choices: str) -> str:
    return str(recorded(STEPS[step].of(**choices))["extension.dataset"])


def test_what_kfrec_itself_provides_is_no_extension() -> None:
    for name, step in STEPS.items():
        parameters = step.of()
        assert recorded(parameters) == as_plain(parameters), name


def test_an_extension_is_recorded_with_its_distribution_version_and_files(package: Path) -> None:
    noted = recorded(STEPS["train"].of(model_type="trip_time"))
    assert {name for name in noted if "." in name} == {"extension.model_type", "extension.task"}
    distribution, version, digest = noted["extension.model_type"].split()
    assert (distribution, version, digest[:7], len(digest)) == ("trips", "0.1.0", "sha256:", 19)
    assert noted["extension.task"] == noted["extension.model_type"] == extension_of("download", dataset="trips")


def test_an_edit_of_any_file_of_the_package_is_other_code(package: Path) -> None:
    before = extension_of("preprocess", dataset="trips")
    edit(package / "model.py", "import tensorflow as tf", "import tensorflow as tf  # as usual")
    after = extension_of("preprocess", dataset="trips")
    (package / "fares.csv").write_text("1,2")
    assert len({before, after, extension_of("preprocess", dataset="trips")}) == 3


def test_a_new_version_of_the_same_files_is_other_code(package: Path) -> None:
    before = extension_of("preprocess", dataset="trips")
    noted = package.parent / "trips-0.1.0.dist-info"
    (noted / "METADATA").write_text("Metadata-Version: 2.1\nName: trips\nVersion: 0.2.0\n")
    noted.rename(noted.with_name("trips-0.2.0.dist-info"))
    forget("trips")
    after = extension_of("preprocess", dataset="trips")
    assert (before.split()[1], after.split()[1]) == ("0.1.0", "0.2.0") and before.split()[2] == after.split()[2]


def test_caches_are_no_code(package: Path) -> None:
    before = extension_of("download", dataset="trips")
    (package / "__pycache__").mkdir(exist_ok=True)
    (package / "__pycache__" / "x.pyc").write_text("")
    (package / ".notes").write_text("")
    assert extension_of("download", dataset="trips") == before
    shutil.rmtree(package / "__pycache__")


def test_a_file_that_a_parameter_names_is_recorded_by_its_content(tmp_path: Path) -> None:
    schema = tmp_path / "schema.yaml"
    schema.write_text("label: x")
    first = recorded(STEPS["preprocess"].of(dataset="tabular", schema=str(schema)))
    schema.write_text("label: y")
    second = recorded(STEPS["preprocess"].of(dataset="tabular", schema=str(schema)))
    assert {name for name in first if first[name] != second[name]} == {"file.schema"}
    assert "file.schema" not in recorded(STEPS["preprocess"].of(dataset="tabular"))


def inputs_of(tmp_path: Path) -> dict[str, dict[str, object]]:
    """The constant inputs of the compiled pipeline's tasks, from which KFP makes the keys of its cache."""
    from kfp import compiler

    component.cache_clear()
    compiler.Compiler().compile(training_pipeline(Pipeline(model="trip_time")), str(tmp_path / "trips.yaml"))
    tasks = next(yaml.load_all((tmp_path / "trips.yaml").read_text(), yaml.CSafeLoader))["root"]["dag"]["tasks"]
    return {name: task["inputs"].get("parameters", {}) for name, task in tasks.items()}


def test_another_code_of_an_extension_is_another_key_of_kfps_cache(package: Path, tmp_path: Path) -> None:
    before = inputs_of(tmp_path)
    edit(package / "task.py", "import numpy as np", "import numpy as np  # as usual")
    after = inputs_of(tmp_path)
    assert {name for name in before if before[name] != after[name]} == set(before) - {"tfrecord"}
    assert after["download"]["extensions"] != before["download"]["extensions"]
