"""Commands by which a person decides about versions: ``kfrec promote`` and ``rollback``."""

from __future__ import annotations

import argparse
import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from components.errors import KfrecError
from pipelines.cli.options import Command, add_tracked_workdir, use_store_of

if TYPE_CHECKING:
    from mlflow import MlflowClient

_NAME, _BECAUSE = "name of the registered model", "why, for the version's tags"


def _promote_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help=_NAME)
    parser.add_argument(
        "--version", default="", metavar="N", help="default: the one awaiting approval, or else the challenger"
    )
    parser.add_argument("--approved-by", required=True, metavar="WHO", help="who approves it, for the version's tags")
    parser.add_argument("--because", required=True, metavar="TEXT", help=_BECAUSE)
    add_tracked_workdir(parser)


def _promote(options: argparse.Namespace) -> int:
    from components.tracking.standing import promote

    if not options.approved_by.strip():
        raise KfrecError("--approved-by is empty; say who approves it (is a shell variable unset?)")
    with _registry(options) as client:
        print(
            promote(client, options.name, _number("--version", options.version), options.approved_by, options.because)
        )
    return 0


def _rollback_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help=_NAME)
    parser.add_argument("--to", default="", metavar="N", help="version (default: the champion before)")
    parser.add_argument("--because", required=True, metavar="TEXT", help=_BECAUSE)
    add_tracked_workdir(parser)


def _rollback(options: argparse.Namespace) -> int:
    from components.tracking.standing import roll_back

    with _registry(options) as client:
        print(roll_back(client, options.name, _number("--to", options.to), _account(), options.because))
    return 0


@contextmanager
def _registry(options: argparse.Namespace) -> Iterator[MlflowClient]:
    """A client of the registry, whose errors are told in a line."""
    from mlflow.exceptions import MlflowException

    from components.tracking.champion import require_name
    from components.tracking.failures import unusable
    from components.tracking.store import connect, database_of, missing, tracking_uri

    use_store_of(options)
    require_name(options.name)
    database = database_of(tracking_uri())
    if database and not database.is_file():
        raise KfrecError(f"no registry here, {database} does not exist; give --workdir or --tracking-uri")
    client = connect()
    try:
        yield client
    except (MlflowException, *missing()) as error:
        raise unusable(client.tracking_uri, error) from error


def _number(option: str, given: str) -> str:
    if given and not (given.isascii() and given.isdigit() and int(given) and len(given) < 18):
        raise KfrecError(f"{option} {given}: no version of a model; give its number, see kfrec models")
    return given


def _account() -> str:
    """The account at MLflow, or else that of this machine."""
    try:
        return os.environ.get("MLFLOW_TRACKING_USERNAME") or getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return f"user {os.getuid()}"


COMMANDS = {
    "promote": Command("make a version of a registered model the champion", _promote_arguments, _promote),
    "rollback": Command("make the champion before the champion again", _rollback_arguments, _rollback),
}
