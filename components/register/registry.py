"""The MLflow model registry: versions, their files and tags, and the aliases."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from components.register.gate import Decision
from components.register.logged import Logged, requirements
from components.tracking.champion import CHAMPION, champion_of, using_store_of, versions_of
from components.tracking.run import TrackedRun
from components.tracking.standing import DECISION, move_alias

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

MODEL_DIGEST = "kfrec.model_digest"
# Whether a step that has stored its decision has yet to move an alias.
_UNDERWAY = "kfrec.underway"
# Key of a stored decision: see Stored.
_BASIS = "basis"
# Inputs and outputs of the version, for users.
DESCRIPTION = "kfrec.takes"


class _Unloaded:
    """The flavor ``mlflow.pyfunc``, saved without a test prediction.

    ``mlflow.pyfunc.log_model`` also loads the model with TensorFlow and scores the example, and logs a failure only as
    a warning. The evaluate step has already scored the whole test split with the model.
    """

    @staticmethod
    def save_model(*, validate_serving_input: bool, **options: Any) -> None:
        import mlflow

        mlflow.pyfunc.save_model(**options)


class Stored(NamedTuple):
    """A decision as stored with its version.

    Attributes:
        basis: digest of what it was made from beside the champion; empty if unknown.
    """

    decision: Decision
    basis: str


class Promotion(NamedTuple):
    """A decision to make a version the champion.

    Attributes:
        over: the champion that it was compared with, None without one.
    """

    version: int
    over: int | None
    decision: str


class Registry:
    """One registered model, accessed within one MLflow run."""

    def __init__(self, name: str, run: TrackedRun) -> None:
        self.name, self.run, self.client = name, run, run.client

    def registered(self, digest: str) -> ModelVersion | None:
        """The existing version of the model with this digest, registered by this run or another, if any."""
        versions = self.client.search_model_versions(f"name = '{self.name}' and tags.`{MODEL_DIGEST}` = '{digest}'")
        return min(versions, key=lambda held: int(held.version), default=None)

    def register(self, how: Logged, files: Iterable[Path], digest: str) -> ModelVersion:
        """Uploads a model and creates a version of it, without an alias.

        Args:
            files: of the model; those that do not exist are left out.
        """
        import mlflow
        from mlflow.exceptions import MlflowException
        from mlflow.models import Model

        with using_store_of(self.client), mlflow.start_run(run_id=self.run.id):
            model = Model.log(
                name="model",
                artifact_path=None,
                flavor=_Unloaded,
                validate_serving_input=False,
                python_model=str(how.code),
                artifacts={path.stem: str(path) for path in files if path.exists()},
                signature=how.signature,
                input_example=how.example,
                pip_requirements=requirements(),
            )
        self.client.update_run(self.run.id, status="RUNNING")  # mlflow's context manager has ended it
        try:
            self.client.create_registered_model(self.name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        # A store in a database looks the model up through mlflow's own tracking URI, whatever the client's.
        with using_store_of(self.client):
            return self.client.create_model_version(
                self.name,
                model.model_uri,
                self.run.id,
                tags={MODEL_DIGEST: digest, DESCRIPTION: how.description},
                model_id=model.model_id,
            )

    def decision(self, held: ModelVersion) -> Stored | None:
        noted = held.tags.get(DECISION)
        return _stored(noted) if noted else None

    def champion(self) -> ModelVersion | None:
        """The version with the alias champion, if any."""
        return champion_of(self.client, self.name)

    def version(self, number: int) -> ModelVersion:
        return self.client.get_model_version(self.name, str(number))

    def promotions(self) -> dict[Promotion, bool]:
        """Every decision to make a version the champion, and whether its step is still underway, or was ended."""
        promotions = {}
        for held in versions_of(self.client, self.name):
            noted = held.tags.get(DECISION)
            decision = _stored(noted).decision if noted else None
            if noted and decision and decision.alias == CHAMPION:
                promotion = Promotion(int(held.version), decision.champion_version, noted)
                promotions[promotion] = held.tags.get(_UNDERWAY) == str(True)
        return promotions

    def note(self, held: ModelVersion, facts: Mapping[str, Any]) -> None:
        """Stores facts about a version as tags ``kfrec.<name>``, for later retrainings."""
        for name, value in facts.items():
            self.client.set_model_version_tag(self.name, held.version, f"kfrec.{name}", str(value))

    def begin(self, held: ModelVersion, decision: Decision, basis: str) -> None:
        """Stores the decision and its basis with the version, before an alias is moved."""
        described = "\n\n".join(filter(None, (decision.reason, held.tags.get(DESCRIPTION))))
        self.client.update_model_version(self.name, held.version, description=described)
        self.client.set_model_version_tag(self.name, held.version, _UNDERWAY, str(True))
        self.client.set_model_version_tag(
            self.name, held.version, DECISION, json.dumps(asdict(decision) | {_BASIS: basis})
        )

    def end(self, held: ModelVersion) -> None:
        """Notes that no alias is moved any more."""
        self.client.set_model_version_tag(self.name, held.version, _UNDERWAY, str(False))

    def set_alias(self, alias: str, held: ModelVersion) -> None:
        """Gives a version the alias; see ``components.tracking.standing.move_alias``."""
        move_alias(self.client, self.name, alias, held.version)


def _stored(noted: str) -> Stored:
    body = json.loads(noted)
    basis = body.pop(_BASIS, "")
    return Stored(Decision.from_dict(body), basis)
