"""The account of the steps over its life; tests/register/test_server.py shows what it may do."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.tracking import account
from components.tracking.account import main, make_account


@pytest.fixture
def accounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of their database."""
    uri = f"sqlite:///{tmp_path / 'auth.db'}"
    (tmp_path / "auth.ini").write_text(
        f"[mlflow]\ndefault_permission = READ\ndatabase_uri = {uri}\nadmin_username = a\n"
    )
    monkeypatch.setenv("MLFLOW_AUTH_CONFIG_PATH", str(tmp_path / "auth.ini"))
    monkeypatch.setattr(account, "_existing", lambda store: [("experiment", "7", "EDIT")])
    return uri


@pytest.mark.slow
def test_an_account_is_made_once_and_follows_its_secret(accounts: str) -> None:
    from mlflow.server.auth.sqlalchemy_store import SqlAlchemyStore

    assert make_account("kfrec", "the first password", "") == "made account kfrec"
    assert make_account("kfrec", "the first password", "") == "account kfrec is as it was"
    assert make_account("kfrec", "another password", "") == "account kfrec has a new password"
    store = SqlAlchemyStore()
    store.init_db(accounts)
    assert store.authenticate_user("kfrec", "another password") and not store.get_user("kfrec").is_admin
    granted = store.list_experiment_permissions("kfrec")
    assert [(grant.experiment_id, grant.permission) for grant in granted] == [("7", "EDIT")]


def test_an_installation_whose_steps_are_the_admin_goes_on_and_is_told(accounts: str) -> None:
    assert "run manifests/create-secrets.sh again" in make_account("a", "the admin's password", "")
    assert not Path(accounts.removeprefix("sqlite:///")).exists()


def test_a_password_that_mlflow_refuses_and_a_missing_one_are_one_line(
    accounts: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "kfrec")
    monkeypatch.setenv("MLFLOW_BACKEND_STORE_URI", "sqlite:///none")
    monkeypatch.delenv("MLFLOW_TRACKING_PASSWORD", raising=False)
    assert main() == 2
    assert capsys.readouterr().err.startswith("error: MLFLOW_TRACKING_PASSWORD is not set")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "short")
    assert main() == 2
    told = capsys.readouterr().err.splitlines()
    assert [line for line in told if line.startswith("error: ")] == told[-1:] and "at least" in told[-1]
