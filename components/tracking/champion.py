"""Read access to the model registry for every step: the versions of a model, the champion, and a version's files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from components.errors import KfrecError
from components.secrets import without_password
from components.tracking.failures import is_of_the_store
from components.tracking.store import connect, missing

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

# Aliases: the best version, the newest one that is not, and the newest one that waits for a person's approval.
CHAMPION, CHALLENGER, AWAITING = "champion", "challenger", "awaiting-approval"
# Tags of a version: the version and row count of its training data.
DATA_VERSION, ROWS = "kfrec.data_version", "kfrec.rows"
# Tag of a version: folder or URI of its records at registration.
DATA = "kfrec.data"
# Tags of a version: folder or URI of the trained model at registration, and how its data's vocabulary was made.
MODEL, VOCABULARY = "kfrec.model", "kfrec.vocabulary"

# Tag of a refit: the version that was judged, from which it differs by what it has trained on.
JUDGED_AS = "kfrec.judged_as"

# Tag of a version: the task that it was evaluated by; versions without it have the parameter of their MLflow run.
TASK, _PARAMETER_OF_RUN = "kfrec.task", "register.task"


# Characters that no registered model's name has.
NOT_IN_A_NAME = "/:'\""


def standing(alias: str) -> str:
    """What a version with an alias is, such as "the champion"."""
    return "awaiting approval" if alias == AWAITING else f"the {alias}"


class FilesGone(KfrecError):
    """The files of a version cannot be fetched."""


def champion_of(client: MlflowClient, name: str) -> ModelVersion | None:
    """The version with the alias champion, if any."""
    from mlflow.exceptions import MlflowException

    try:
        return client.get_model_version_by_alias(name, CHAMPION)
    except MlflowException as error:
        if error.error_code in ("INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST"):
            return None
        # A server with accounts refuses the alias of a name that nobody has registered.
        if error.error_code != "PERMISSION_DENIED" or _is_registered(client, name):
            raise
        return None


def _is_registered(client: MlflowClient, name: str) -> bool:
    from mlflow.exceptions import MlflowException

    try:
        client.get_registered_model(name)
    except MlflowException as error:
        return error.error_code != "RESOURCE_DOES_NOT_EXIST"
    return True


def judged_twin(client: MlflowClient, version: ModelVersion) -> ModelVersion:
    """The version that was judged: that of a refit is its twin, which has not trained on newer events; else itself.

    Raises:
        FilesGone: the twin is no longer registered.
    """
    from mlflow.exceptions import MlflowException

    twin = version.tags.get(JUDGED_AS)
    if not twin:
        return version
    try:
        return client.get_model_version(version.name, twin)
    except MlflowException as error:
        if is_of_the_store(error):
            raise
        raise FilesGone(f"version {twin}, as which it was judged, is no longer registered") from error


def versions_of(client: MlflowClient, name: str) -> list[ModelVersion]:
    """All versions of a model; empty if it has never been registered."""
    return list(client.search_model_versions(f"name = '{name}'"))


def other_task(client: MlflowClient, version: ModelVersion, task: str) -> str:
    """The task of a version if it is known and is not ``task``, else empty."""
    from mlflow.exceptions import MlflowException

    theirs = version.tags.get(TASK, "")
    if not theirs and version.run_id:
        try:
            theirs = client.get_run(version.run_id).data.params.get(_PARAMETER_OF_RUN, "")
        except MlflowException as error:
            if is_of_the_store(error):
                raise
    return theirs if theirs != task else ""


def require_task(client: MlflowClient, name: str, held: ModelVersion, task: str) -> None:
    """Refuses a champion that another task evaluates: its score cannot be compared.

    Raises:
        KfrecError: the champion's task is known to be another one.
    """
    if other := other_task(client, held, task):
        raise KfrecError(
            f"parameter registered_model={name!r}: its champion, version {held.version} at "
            f"{without_password(client.tracking_uri)}, is of the task {other} and this model of the task {task}, so "
            "they cannot be compared; give registered_model another name"
        )


def require_name(name: str) -> None:
    """Refuses a name that MLflow, or a filter of its searches, cannot take.

    Raises:
        KfrecError: it has such a character.
    """
    if any(each in name for each in NOT_IN_A_NAME):
        raise KfrecError(
            f"parameter registered_model={name!r}: MLflow's names have no / and no :, and kfrec's no quotes; correct it"
        )


def require_task_early(name: str, task: str) -> None:
    """``require_task`` before hours of work, if the registry answers; the register step looks again.

    Raises:
        KfrecError: the name cannot be one, or the champion's task is known to be another one.
    """
    from mlflow.exceptions import MlflowException

    require_name(name)
    client = connect()
    try:
        if held := champion_of(client, name):
            require_task(client, name, held, task)
    except (MlflowException, *missing()):
        return


def download_version(client: MlflowClient, name: str, version: str, folder: Path) -> Path:
    """Fetches a version's files and returns its model folder.

    Raises:
        FilesGone: they cannot be fetched.
    """
    import mlflow
    from mlflow.exceptions import MlflowException

    try:
        with using_store_of(client):
            source = f"models:/{name}/{version}"
            artifacts = Path(mlflow.artifacts.download_artifacts(source, dst_path=str(folder))) / "artifacts"
    except (MlflowException, FileNotFoundError) as error:
        if isinstance(error, MlflowException) and is_of_the_store(error):
            raise
        raise FilesGone(f"its files cannot be fetched ({str(error).splitlines()[0]})") from error
    if not artifacts.is_dir():
        raise FilesGone("its files are gone or were not written by kfrec")
    return artifacts


@contextmanager
def using_store_of(client: MlflowClient) -> Iterator[None]:
    """Points mlflow's module-level functions at the client's store within the block.

    mlflow stores the URIs in the environment; they are restored, or they would affect this process's next store.
    """
    import mlflow

    earlier = {name: os.environ.get(name) for name in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI")}
    mlflow.set_tracking_uri(client.tracking_uri)
    mlflow.set_registry_uri(earlier["MLFLOW_REGISTRY_URI"] or client.tracking_uri)
    try:
        yield
    finally:
        # None: the environment decides again.
        mlflow.set_tracking_uri(None)  # type: ignore[arg-type]
        mlflow.set_registry_uri(None)  # type: ignore[arg-type]
        for name, value in earlier.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
