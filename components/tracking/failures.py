"""Explains MLflow's errors in one line each, with the remedy."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from components.errors import KfrecError, Unreachable, certificate_problem
from components.secrets import without_password

_WORDS = 200
_REMEDY = "set MLFLOW_TRACKING_URI to sqlite:///FILE or to a server's http:// address"
# Module to package of database drivers with differing names.
_PACKAGES = {"psycopg": "psycopg[binary]", "psycopg2": "psycopg2-binary", "MySQLdb": "mysqlclient"}
# Statuses that depend on the server or the account, not on the request.
_NOT_THE_REQUEST = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)
_DATABASE_REMEDIES = {
    "readonly database": "give this user the right to write to the file and its folder",
    "disk is full": "free some space",
    "disk I/O error": "check the disk",
    "database is locked": "end the process that writes to it",
    "malformed": "the file is damaged: restore a copy, or move it away",
    "unable to open database file": "check that the file and its folder can be written",
}


def unusable(uri: str, error: Any) -> KfrecError:
    """The error for an unusable store or server.

    Args:
        uri: of the store; a password in it is not shown.
        error: from mlflow or SQLAlchemy.
    """
    server, reason = f"MLflow at {without_password(uri)}", _one_line(error)
    if isinstance(error, ModuleNotFoundError):
        package = _PACKAGES.get(error.name or "", error.name)
        return KfrecError(f"{server} needs the package {package}, which is not installed; install it, or {_REMEDY}")
    if problem := certificate_problem(error):
        return KfrecError(f"{server}: {problem}")
    if answered := status_of(error):
        return _answered(server, answered, error)
    if is_unreachable(error):
        return Unreachable(f"{server} cannot be used (no answer after several tries); start it, or {_REMEDY}")
    for fault, remedy in _DATABASE_REMEDIES.items():
        if fault in reason:
            return KfrecError(f"{server} cannot be used ({fault}); {remedy}, or {_REMEDY}")
    return KfrecError(f"{server} cannot be used ({reason[:_WORDS]}); {_REMEDY}")


def is_unreachable(error: Exception) -> bool:
    """Whether an MLflow error means that no server answered."""
    failed = re.search(r"API request to \S+ failed with (timeout )?exception", str(error))
    return failed is not None and status_of(error) is None


def status_of(error: Exception) -> int | None:
    """The HTTP status of an MLflow error if the server or the account caused it, else None."""
    from mlflow.exceptions import RestException

    match = re.search(r"failed with error code (\d{3})|too many (\d{3}) error responses", str(error))
    if match:
        return int(match[1] or match[2])
    status = error.get_http_status_code() if isinstance(error, RestException) else 0
    return status if status in _NOT_THE_REQUEST or status >= HTTPStatus.INTERNAL_SERVER_ERROR else None


def is_of_the_store(error: Exception) -> bool:
    """Whether the store, not the request, caused an MLflow error."""
    from sqlalchemy.exc import DBAPIError

    return is_unreachable(error) or status_of(error) is not None or isinstance(error.__cause__, DBAPIError)


def _answered(server: str, status: int, error: Exception) -> KfrecError:
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return KfrecError(
            f"{server} refused this account ({status}); set MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, to one that may write"
        )
    words = _words_of(error)
    answer = f"{server} answered {status}" + (f": {words}" if words else "")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unreachable(f"{answer}; look into the server's log, then run again")
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Unreachable(f"{answer}; run again later")
    return KfrecError(f"{answer}; check that it is the address of an MLflow server")


def _words_of(error: Exception) -> str:
    """The server's message, as far as mlflow keeps it: it drops the response of a retried request."""
    from mlflow.exceptions import RestException

    if isinstance(error, RestException):
        return _one_line(error)[:_WORDS]
    return " ".join(str(error).partition("Response body:")[2].strip(" '").split())[:_WORDS]


def _one_line(error: object) -> str:
    """An error's text without the SQL that SQLAlchemy adds."""
    return " ".join(str(error).partition("[SQL:")[0].split())
