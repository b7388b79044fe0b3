import os
from pathlib import Path

import pytest

from components.steps.mounted import mounted_environment, use_mounted_environment


def test_files_named_like_variables_are_read_and_the_rest_is_not(tmp_path: Path) -> None:
    secret, job = tmp_path / "mlflow", tmp_path / "job"
    for folder in (secret / "..data", job):
        folder.mkdir(parents=True)
    (secret / "..data" / "MLFLOW_TRACKING_PASSWORD").write_text("s3cret\n")
    # As the kubelet lays a volume out: the file is a link into ..data.
    (secret / "MLFLOW_TRACKING_PASSWORD").symlink_to("..data/MLFLOW_TRACKING_PASSWORD")
    (job / "mpijob.yaml").write_text("image: x\n")
    assert mounted_environment(tmp_path) == {"MLFLOW_TRACKING_PASSWORD": "s3cret"}


def test_what_is_set_already_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "KFREC_TEST_SET").write_text("mounted")
    (tmp_path / "config" / "KFREC_TEST_UNSET").write_text("mounted")
    monkeypatch.setenv("KFREC_TEST_SET", "own")
    monkeypatch.setenv("KFREC_TEST_UNSET", "")
    monkeypatch.delenv("KFREC_TEST_UNSET")
    use_mounted_environment(tmp_path)
    assert (os.environ["KFREC_TEST_SET"], os.environ["KFREC_TEST_UNSET"]) == ("own", "mounted")


def test_a_machine_without_mounts_sets_nothing(tmp_path: Path) -> None:
    assert mounted_environment(tmp_path / "absent") == {}
