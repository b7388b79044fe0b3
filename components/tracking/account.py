"""Creates the steps' account in the MLflow server's database: ``python -m components.tracking.account``.

Runs before the server starts. The account is no admin: it can create experiments and registered models, which it then
owns, and read those of others. It may also write to those that existed at its creation.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from components.errors import KfrecError
from components.tracking.failures import unusable

_NAME, _PASSWORD, _STORE = "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_BACKEND_STORE_URI"
_DEFAULT_EXPERIMENT = "0"


def make_account(name: str, password: str, store: str) -> str:
    """Creates the account, or sets its password; later grants are kept.

    Args:
        store: URI of the database of runs and models; MLFLOW_AUTH_CONFIG_PATH names that of the accounts.

    Returns:
        One line about the change.

    Raises:
        KfrecError: a database cannot be used, or MLflow rejects the password.
    """
    from mlflow.exceptions import MlflowException
    from mlflow.server.auth.config import read_auth_config
    from mlflow.server.auth.sqlalchemy_store import SqlAlchemyStore
    from sqlalchemy.exc import SQLAlchemyError

    config = read_auth_config()
    if name == config.admin_username:
        return (
            f"{_NAME}={name} is the server's admin, so steps may do anything there; delete the secret that has it and "
            "run manifests/create-secrets.sh again for an account of their own"
        )
    accounts = SqlAlchemyStore()
    try:
        accounts.init_db(config.database_uri)
        if accounts.has_user(name):
            if accounts.authenticate_user(name, password):
                return f"account {name} is as it was"
            accounts.update_user(name, password=password)
            return f"account {name} has a new password"
        granted = list(_existing(store))
        accounts.create_user(name, password)
        for kind, key, permission in granted:
            accounts.grant_user_permission(name, kind, key, permission)
        return f"made account {name}"
    except (MlflowException, SQLAlchemyError) as error:
        raise unusable(config.database_uri, error) from error


def _existing(store: str) -> Iterator[tuple[str, str, str]]:
    """Kind, key and needed permission of every experiment and registered model."""
    from mlflow import MlflowClient
    from mlflow.entities import ViewType

    client = MlflowClient(store, store)
    for experiment in _pages(lambda token: client.search_experiments(ViewType.ALL, page_token=token)):
        if experiment.experiment_id != _DEFAULT_EXPERIMENT:
            yield "experiment", experiment.experiment_id, "EDIT"
    for model in _pages(lambda token: client.search_registered_models(page_token=token)):
        # Removing an alias counts as deleting.
        yield "registered_model", model.name, "MANAGE"


def _pages(page: Callable[[str | None], Any]) -> Iterator[Any]:
    token: str | None = None
    while True:
        answer = page(token)
        yield from answer
        token = answer.token
        if not token:
            return


def main() -> int:
    try:
        values = [os.environ.get(name, "") for name in (_NAME, _PASSWORD, _STORE)]
        for name, value in zip((_NAME, _PASSWORD, _STORE), values, strict=True):
            if not value:
                raise KfrecError(f"{name} is not set; set it to that of the steps' account")
        print(make_account(*values), flush=True)
    except KfrecError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
