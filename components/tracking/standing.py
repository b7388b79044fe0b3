"""What a person decides about versions: a promotion, an approval, and the way back.

Who, when and why are tags of the version, and of its MLflow run, whose tag ``kfrec.alias`` follows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from components.errors import KfrecError
from components.tracking.champion import AWAITING, CHALLENGER, CHAMPION, JUDGED_AS, champion_of

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

# Tags of a version: the stored decision of the gate, and the champion that a person's promotion replaced.
DECISION, BEFORE = "kfrec.decision", "kfrec.champion_before"
_PROMOTED, _ROLLED_BACK = "kfrec.promoted", "kfrec.rolled_back"
_BY, _AT, _BECAUSE = _PARTS = ("by", "at", "because")
# What a run's tag says of a version that was rolled back.
ROLLED_BACK = "rolled back"


def move_alias(client: MlflowClient, name: str, alias: str, version: str) -> None:
    """Gives a version the alias, in one transaction; a new champion then has no other alias of the gate."""
    from mlflow.exceptions import MlflowException

    try:
        client.set_registered_model_alias(name, alias, version)
    except MlflowException as error:
        if error.error_code != "BAD_REQUEST":
            raise
        # Another step has set this alias for the first time, between MLflow's look and its insert.
        client.set_registered_model_alias(name, alias, version)
    if alias == CHAMPION:
        held = client.get_registered_model(name).aliases
        for other in (CHALLENGER, AWAITING):
            if str(held.get(other, "")) == str(version):
                client.delete_registered_model_alias(name, other)


def rolled_back(held: ModelVersion) -> str:
    """Who rolled a version back, when and why, a clause; empty if nobody did, or it was promoted by hand since."""
    by, at, because = (held.tags.get(f"{_ROLLED_BACK}_{part}", "") for part in _PARTS)
    return f"{by} rolled it back at {at} because {because.rstrip('.')}" if at else ""


def promote(client: MlflowClient, name: str, version: str, by: str, because: str) -> str:
    """Makes a version the champion.

    Args:
        version: its number; empty is the one that awaits approval, or else the challenger.
        by, because: who approves it, and why.

    Returns:
        What was done, a sentence.

    Raises:
        KfrecError: there is no such version, or it is the champion.
    """
    _require_reason(because)
    held = _version(client, name, version) if version else _candidate(client, name)
    before = champion_of(client, name)
    if before and before.version == held.version:
        raise KfrecError(f"{name} version {held.version} is the champion already; name another one with --version")
    for part in _PARTS:
        if f"{_ROLLED_BACK}_{part}" in held.tags:
            client.delete_model_version_tag(name, held.version, f"{_ROLLED_BACK}_{part}")
    _note(client, held, _PROMOTED, by, because, CHAMPION, {BEFORE: str(before.version) if before else ""})
    move_alias(client, name, CHAMPION, held.version)
    instead = f" instead of version {before.version}" if before else ""
    judged = _decision(held).get("champion_version")
    stale = f"; it was compared with version {judged}" if judged and before and judged != int(before.version) else ""
    return f"{name} version {held.version} is the champion{instead}, approved by {by}{stale}"


def roll_back(client: MlflowClient, name: str, to: str, by: str, because: str) -> str:
    """Makes an earlier version the champion again; the gate does not promote the one that it replaces any more.

    Args:
        to: its number; empty is the champion before this one.
        by, because: who goes back, and why.

    Returns:
        What was done, a sentence.

    Raises:
        KfrecError: there is no champion, no earlier one, or no such version.
    """
    _require_reason(because)
    champion = champion_of(client, name)
    if champion is None:
        raise KfrecError(f"{name} has no champion at {_shown(client)}, so there is nothing to go back from")
    target = _version(client, name, to) if to else champion_before(client, champion)
    if target.version == champion.version:
        raise KfrecError(f"{name} version {champion.version} is the champion already; name another one with --to")
    move_alias(client, name, CHAMPION, target.version)
    twin = champion.tags.get(JUDGED_AS, "")
    for left in {str(champion.version), twin} - {"", str(target.version)}:
        _note(client, _version(client, name, left), _ROLLED_BACK, by, because, ROLLED_BACK)
    _tag_run(client, target, {"kfrec.alias": CHAMPION})
    return f"{name} version {target.version} is the champion again, instead of version {champion.version}"


def champion_before(client: MlflowClient, champion: ModelVersion) -> ModelVersion:
    """The champion before one, without what was rolled back, and what it is the refit of.

    Raises:
        KfrecError: nothing says which it was.
    """
    name, seen, current = champion.name, {str(champion.version), champion.tags.get(JUDGED_AS, "")}, champion
    while True:
        noted = current.tags.get(BEFORE) or _decision(current).get("champion_version")
        if not noted or (str(noted) in seen and str(noted) != champion.tags.get(JUDGED_AS, "")):
            raise KfrecError(
                f"{name}: nothing says which version was the champion before version {champion.version}; name one "
                "with --to, see kfrec models"
            )
        current = _version(client, name, str(noted))
        if str(noted) not in seen and not rolled_back(current):
            return current
        seen.add(str(noted))


def _candidate(client: MlflowClient, name: str) -> ModelVersion:
    from mlflow.exceptions import MlflowException

    try:
        aliases = client.get_registered_model(name).aliases
    except MlflowException as error:
        raise _unknown(client, name, error) from None
    for alias in (AWAITING, CHALLENGER):
        if alias in aliases:
            return _version(client, name, str(aliases[alias]))
    raise KfrecError(f"{name}: no version awaits approval, and there is no challenger; name one with --version")


def _version(client: MlflowClient, name: str, number: str) -> ModelVersion:
    from mlflow.exceptions import MlflowException

    try:
        return client.get_model_version(name, number)
    except MlflowException as error:
        raise _unknown(client, f"{name} version {number}", error) from None


def _unknown(client: MlflowClient, what: str, error: Exception) -> KfrecError:
    from components.tracking.failures import is_of_the_store, unusable

    if is_of_the_store(error):
        return unusable(client.tracking_uri, error)
    return KfrecError(f"{what}: not in the registry at {_shown(client)}; see kfrec models")


def _shown(client: MlflowClient) -> str:
    from components.secrets import without_password

    return without_password(client.tracking_uri)


def _decision(held: ModelVersion) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(held.tags.get(DECISION, "{}"))
    return body


def _note(
    client: MlflowClient,
    held: ModelVersion,
    what: str,
    by: str,
    because: str,
    alias: str,
    facts: Mapping[str, str] | None = None,
) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    noted = {f"{what}_{_BY}": by, f"{what}_{_AT}": now, f"{what}_{_BECAUSE}": because, **(facts or {})}
    for tag, value in noted.items():
        client.set_model_version_tag(held.name, held.version, tag, value)
    _tag_run(client, held, noted | {"kfrec.alias": alias})


def _tag_run(client: MlflowClient, held: ModelVersion, tags: Mapping[str, str]) -> None:
    from mlflow.exceptions import MlflowException

    from components.tracking.failures import is_of_the_store

    try:
        for tag, value in tags.items() if held.run_id else ():
            client.set_tag(str(held.run_id), tag, value)
    except MlflowException as error:  # the run was deleted
        if is_of_the_store(error):
            raise


def _require_reason(because: str) -> None:
    if not because.strip():
        raise KfrecError("--because is empty; say why in a few words (is a shell variable unset?)")
