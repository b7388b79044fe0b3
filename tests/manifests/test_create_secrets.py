"""manifests/create-secrets.sh, with a kubectl that writes down what it is asked for."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy

from images.build import load_images

ROOT = Path(__file__).parents[2]
# `get secret NAME` finds what the folder has; `create -f -` keeps each value in a file of its own.
KUBECTL = f"""#!{sys.executable}
import base64, os, sys, yaml
from pathlib import Path
folder, words = Path(os.environ["SECRETS"]), sys.argv[3:]
with (folder.parent / "arguments").open("a") as file: print(*sys.argv, file=file)
if words[0] == "get": sys.exit(not (folder / words[2]).is_dir())
assert words == ["create", "-f", "-"], words
secret = yaml.safe_load(sys.stdin)
assert (secret["apiVersion"], secret["kind"]) == ("v1", "Secret")
(folder / secret["metadata"]["name"]).mkdir()
for key, value in secret["data"].items():
    (folder / secret["metadata"]["name"] / key).write_bytes(base64.b64decode(value, validate=True))
"""


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


def test_steps_do_not_get_the_password_of_the_admin_and_nobody_chose_one(secrets: Path) -> None:
    assert create(secrets).returncode == 0
    passwords = {
        value(secrets, "kfrec-mlflow", "MLFLOW_TRACKING_PASSWORD"),
        value(secrets, "kfrec-mlflow-server", "MLFLOW_AUTH_ADMIN_PASSWORD"),
        value(secrets, "kfrec-mlflow-server", "POSTGRES_PASSWORD"),
    }
    assert len(passwords) == 3 and all(len(password) >= 20 for password in passwords)
    config = configparser.ConfigParser()
    config.read(secrets / "kfrec-mlflow-server" / "basic_auth.ini")
    assert value(secrets, "kfrec-mlflow", "MLFLOW_TRACKING_USERNAME") != config["mlflow"]["admin_username"]
    assert config["mlflow"]["default_permission"] == "READ"


def test_no_password_is_among_the_arguments_of_a_program(secrets: Path) -> None:
    assert create(secrets, DATABASE_URI="postgresql://mlflow:topsecret@db/mlflow").returncode == 0
    arguments = (secrets.parent / "arguments").read_text()
    values = {file.read_text() for file in secrets.glob("*/*")} - {"kfrec"}
    assert len(values) == 6 and "topsecret" not in arguments
    assert not [text for text in values if text in arguments]


def test_the_server_finds_its_accounts_in_the_database(secrets: Path) -> None:
    """A password with % in it, as the address of a database has it for special characters."""
    uri = "postgresql+psycopg://mlflow:p%40ss%2Fword@db.example.org:5432/mlflow"
    assert create(secrets, DATABASE_URI=uri).returncode == 0
    config = configparser.ConfigParser()  # as mlflow.server.auth.config reads it
    config.read(secrets / "kfrec-mlflow-server" / "basic_auth.ini")
    assert config["mlflow"]["database_uri"] == uri == value(secrets, "kfrec-mlflow-server", "MLFLOW_BACKEND_STORE_URI")
    assert "admin_password" not in config["mlflow"]


def test_what_exists_is_kept(secrets: Path) -> None:
    (secrets / "kfrec-mlflow").mkdir()
    done = create(secrets)
    assert (done.returncode, done.stderr) == (2, "secret kfrec-mlflow exists in kfrec; nothing was changed\n")
    assert [folder.name for folder in secrets.iterdir()] == ["kfrec-mlflow"]


def test_a_new_account_for_the_steps_of_a_server_that_is_there(secrets: Path) -> None:
    """After an upgrade from the admin's, a new password, or a first try that was cut short."""
    (secrets / "kfrec-mlflow-server").mkdir()
    done = create(secrets)
    assert done.returncode == 0 and "rollout restart deployment/kfrec-mlflow" in done.stderr
    assert list((secrets / "kfrec-mlflow-server").iterdir()) == []
    assert value(secrets, "kfrec-mlflow", "MLFLOW_TRACKING_USERNAME") == "kfrec"


@pytest.mark.parametrize("given", ["", "postgresql://", "postgres://", "postgresql+psycopg://"])
def test_the_database_uri_names_the_driver_that_the_image_installs(secrets: Path, given: str) -> None:
    """What plain postgresql:// means changed with SQLAlchemy 2.1."""
    chosen = {"DATABASE_URI": f"{given}mlflow:secret@db.example.org/mlflow"} if given else {}
    assert create(secrets, **chosen).returncode == 0
    uri = sqlalchemy.make_url(value(secrets, "kfrec-mlflow-server", "MLFLOW_BACKEND_STORE_URI"))
    assert uri.drivername == "postgresql+psycopg" and uri.get_dialect().driver in load_images()["cpu"].imports


def test_another_database_keeps_its_uri(secrets: Path) -> None:
    assert create(secrets, DATABASE_URI="mysql+pymysql://mlflow@db/mlflow").returncode == 0
    assert value(secrets, "kfrec-mlflow-server", "MLFLOW_BACKEND_STORE_URI") == "mysql+pymysql://mlflow@db/mlflow"
