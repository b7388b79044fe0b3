"""manifests/create-secrets.sh, with a kubectl that writes down what it is asked for."""

from __future__ import annotations

import configparser
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# `get secret NAME` finds what the folder has; `create` keeps each literal in a file of its own.
KUBECTL = """#!/usr/bin/env bash
shift 2
if [ "$1" = get ]; then exec test -d "$SECRETS/$3"; fi
mkdir "$SECRETS/$4"
for word in "${@:5}"; do pair=${word#--from-literal=}; printf %s "${pair#*=}" > "$SECRETS/$4/${pair%%=*}"; done
"""


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    return secrets_in(tmp_path)


def secrets_in(folder: Path) -> Path:
    """The folder where that kubectl keeps secrets."""
    (folder / "bin").mkdir()
    (folder / "bin" / "kubectl").write_text(KUBECTL)
    (folder / "bin" / "kubectl").chmod(0o755)
    (folder / "secrets").mkdir()
    return folder / "secrets"


def create(secrets: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{secrets.parent / 'bin'}:{os.environ['PATH']}"
    script = str(ROOT / "manifests" / "create-secrets.sh")
    values = {"PATH": path, "SECRETS": str(secrets), **environment}
    return subprocess.run([script, "kfrec"], capture_output=True, text=True, env=values)


def value(secrets: Path, secret: str, key: str) -> str:
    return (secrets / secret / key).read_text()


def test_server_and_steps_get_the_same_password_and_nobody_chose_it(secrets: Path) -> None:
    assert create(secrets).returncode == 0
    password = value(secrets, "kfrec-mlflow", "MLFLOW_TRACKING_PASSWORD")
    assert password == value(secrets, "kfrec-mlflow-server", "MLFLOW_AUTH_ADMIN_PASSWORD") and len(password) >= 20
    assert value(secrets, "kfrec-mlflow-server", "POSTGRES_PASSWORD") != password


def test_the_server_finds_its_accounts_in_the_database(secrets: Path) -> None:
    """A password with % in it, as the address of a database has it for special characters."""
    uri = "postgresql+psycopg://mlflow:p%40ss%2Fword@db.example.org:5432/mlflow"
    assert create(secrets, DATABASE_URI=uri).returncode == 0
    config = configparser.ConfigParser()  # as mlflow.server.auth.config reads it
    config.read(secrets / "kfrec-mlflow-server" / "basic_auth.ini")
    assert config["mlflow"]["database_uri"] == uri == value(secrets, "kfrec-mlflow-server", "MLFLOW_BACKEND_STORE_URI")
    assert "admin_password" not in config["mlflow"]


@pytest.mark.parametrize("existing", ["kfrec-mlflow-server", "kfrec-mlflow"])
def test_what_exists_is_kept_and_nothing_is_half_made(secrets: Path, existing: str) -> None:
    (secrets / existing).mkdir()
    done = create(secrets)
    assert (done.returncode, done.stderr) == (2, f"secret {existing} exists in kfrec; nothing was changed\n")
    assert [folder.name for folder in secrets.iterdir()] == [existing]
