"""The register step: creates a version in the model registry from model and evaluation, and decides about it."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from components import registry as registry_of
from components.artifacts import Artifact, open_input, publishing
from components.artifacts.notes import read_notes
from components.checks import PROFILE
from components.checks.profile import read_profile
from components.errors import KfrecError
from components.feature_spec import FeatureSpec, load_feature_spec
from components.parameters import parameters_of
from components.register.comparison import METRICS, Candidate
from components.register.documents import FILENAME as CARD
from components.register.documents import card, decision_page, earlier_versions, started_from
from components.register.gate import Decision
from components.register.logged import logged
from components.register.pairing import Registered, register_pair
from components.register.promotion import basis_of, decide
from components.register.refit import publish
from components.register.registry import DESCRIPTION, Registry
from components.report import Section
from components.report.page import Facts
from components.scoring import ExportedModel, describe_model, open_test_split, open_trained, refusal_of_rows
from components.scoring.model import MODEL_FILES
from components.scoring.predictions import FILENAME as PREDICTIONS
from components.scoring.raw import dataset_of
from components.steps.catalog import RegisterParameters
from components.steps.recorded import recorded
from components.tasks import TaskDefinition
from components.tasks.pairing import require_names
from components.tracking.champion import CHAMPION, require_name, standing
from components.tracking.run import refit_of, tracked_run
from components.tracking.trained import log_extensions
from components.training_log import TRAINING

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

_EXAMPLE_ROWS = 3
# What is noted of the metadata section ``encoding``.
_ENCODED = ("vocabulary", "out_of_vocabulary_rate", "admitted", "evicted", "replayed", "unknown_share")


def run(
    parameters: RegisterParameters, *, tfrecord: Path, model: Path, evaluation: Path, registration: Path
) -> Mapping[str, Any]:
    """Registers ``model``, sets its alias and writes the ``registration`` folder.

    A second call with the same model finds the version of the first call.

    Args:
        tfrecord: the model's data; of a refit those that it trained on.
        evaluation: of the model; of a refit that of its judged twin.

    Returns:
        ``models``: 1; ``summary``: the decision in a sentence; ``refit``: whether the model is to be trained again on
        everything, or, of a refit, whether it is published; ``epochs``: those that the model is exported after.

    Raises:
        KfrecError: an input is unfinished, or the evaluation is of another model or test set.
    """
    require_name(parameters.registered_model)
    require_names(vars(parameters))
    inputs = {"tfrecord": open_test_split(tfrecord), "model": open_trained(model)}
    inputs["evaluation"] = evaluated = _evaluation_of({} if parameters.refitting else inputs, evaluation)
    tfrecord, model, evaluation = (artifact.path for artifact in inputs.values())
    task = registry_of.task(parameters.task).at(evaluated.parameters)
    metrics = read_notes(evaluation / METRICS)
    score = _score_of(evaluation, metrics, task)
    title = f"registration of {parameters.registered_model}"
    run_id = refit_of(parameters.run_id) if parameters.refitting else parameters.run_id
    with tracked_run(parameters.experiment, run_id, title) as tracked:
        tracked.log_step(parameters, "register")
        log_extensions(tracked, recorded(parameters))
        registry = Registry(parameters.registered_model, tracked)
        exported = describe_model(model)
        spec = load_feature_spec(tfrecord, exported.parameters.get("feature_spec", "feature_spec.yaml"))
        origin = _origin(parameters, spec)
        data = inputs["tfrecord"].data_uri or str(tfrecord.absolute())
        trained = inputs["model"].data_uri or str(model.absolute())

        def registered(lineage: dict[str, Any]) -> ModelVersion:
            digest = inputs["model"].digest
            version = registry.registered(digest)
            if version is None:
                inputs["model"].verify(MODEL_FILES)  # this step does not load it, which would detect damage
                how = logged(exported, lambda: _example(spec, exported))
                version = registry.register(how, (exported.folder / name for name in MODEL_FILES), digest)
            registry.note(version, origin | {"data": data, "model": trained, "task": task.name} | lineage)
            return version

        candidate = Candidate(
            parameters, task, spec, evaluation, evaluated.parameters, metrics, score, _is_baseline(exported)
        )
        basis = _basis(parameters, task, evaluated)
        sections: Sequence[Section] = ()
        pair: Registered | str = ""
        if parameters.refitting:
            twin = registry.registered(evaluated.inputs["model"])
            version, decision = publish(candidate, registry, twin, exported, registered, basis)
        else:
            version = registered({})
            against = partial(candidate.against, registry)
            decision, sections = decide(registry, version, against, basis, approval=parameters.approval)
            pair = register_pair(parameters, spec, data, inputs["tfrecord"].digest, tracked)
        body = _registration(parameters.registered_model, int(version.version), tracked.id, decision) | origin
        about_pair = pair.summary if isinstance(pair, Registered) else pair
        body |= {"pair": about_pair} if about_pair else {}
        with publishing(registration, step="register", inputs=inputs, parameters=recorded(parameters)) as staging:
            (staging.path / "registration.json").write_text(json.dumps(body, indent=2) + "\n")
            facts = Facts(
                title=parameters.registered_model,
                data=origin | started_from(exported.parameters),
                origins={name: artifact.digest for name, artifact in inputs.items()},
                about="Promotion decision about",
                written="Written by the register step of kfrec. The decision is in registration.json.",
            )
            judged = f"of version {decision.champion_version}, which was judged"
            whose = judged if parameters.refitting else "of this model"
            sections = [*sections, *earlier_versions(registry, int(version.version), task.primary)]
            page = decision_page(int(version.version), decision, whose, sections, task.primary, facts)
            (staging.path / "decision.html").write_text(page)
            title = f"{parameters.registered_model} version {version.version}"
            described = version.tags.get(DESCRIPTION, "")
            profile = read_profile(tfrecord / PROFILE)
            (staging.path / CARD).write_text(card(title, decision, described, task, spec, metrics, facts.data, profile))
            if isinstance(pair, Registered):
                (staging.path / "pair.json").write_text(json.dumps(pair.body, indent=2) + "\n")
            staging.rows["models"] = 1
        name = task.primary.name
        numbers = {f"champion_{name}": decision.champion_score, f"{name}_difference": decision.difference}
        tracked.log_metrics({name: value for name, value in numbers.items() if value is not None})
        noted = ("registered_model", "version", "alias", "reason", *origin)
        tracked.set_tags({f"kfrec.{name}": str(body[name]) for name in noted})
        registry.note(version, {"card": f"runs:/{tracked.id}/registration/{CARD}"})
        for name in (
            "registration.json",
            "decision.html",
            CARD,
            *(["pair.json"] if isinstance(pair, Registered) else []),
        ):
            tracked.log_artifact(registration / name, "registration")
    verdict = f"{body['registered_model']} version {version.version} is {standing(decision.alias)}: {decision.reason}"
    refusal = refusal_of_rows(exported.spec)
    about = [f"kfrec predict will refuse it: {refusal}"] if refusal else []
    about += [about_pair] if about_pair else []
    epochs = read_notes(model / TRAINING).get("exported_epoch", 0)
    is_published = decision.alias == CHAMPION
    if parameters.refitting:
        is_published &= int(version.version) != decision.champion_version
    elif parameters.refit and is_published and (why := _why_no_refit(spec, epochs)):
        about.append(f"no refit, because {why}")
        is_published = False
    refit = is_published and (parameters.refitting or parameters.refit)
    return {**staging.rows, "summary": "; ".join([verdict, *about]), "refit": refit, "epochs": epochs}


def show(folders: Mapping[str, Path], arguments: Mapping[str, Any]) -> None:
    """Fills the component's output ``decision``, an ``Output[HTML]``; ``folders`` are the step's, by name."""
    page = Path(arguments["decision"].path)
    page.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folders["registration"] / "decision.html", page)


def _basis(parameters: RegisterParameters, task: TaskDefinition, evaluated: Artifact) -> str:
    own = {"promotion_margin", "promote_after_days", "bootstrap_samples", "confidence", "approval"}
    names = own | {p.name for p in parameters_of(task.decision)}
    return basis_of(evaluated.digest, {name: getattr(parameters, name) for name in names})


def _why_no_refit(spec: FeatureSpec, epochs: int) -> str:
    """Why a model cannot be trained again on everything, a clause; empty if it can."""
    name = dataset_of(spec)
    if name in registry_of.names(registry_of.DATASETS) and not registry_of.dataset(name).refits:
        return f"data set {name} cannot train on what it tests on; set refit=false"
    return "" if epochs else "the model does not say after how many epochs it is exported"


def _is_baseline(model: ExportedModel) -> bool:
    """Whether its definition says so; false where its package is not installed here."""
    name = str(model.parameters.get("model_type", ""))
    return name in registry_of.names(registry_of.MODELS) and registry_of.model(name).is_baseline


def _origin(parameters: RegisterParameters, spec: FeatureSpec) -> dict[str, Any]:
    """The model's origin: its data, their encoding, and the trigger of the training."""
    encoding = spec.metadata.get("encoding") or {}
    known = {
        "data_version": parameters.data_version,
        "occasion": parameters.occasion,
        "rows": encoding.get("raw_rows"),
        **{name: encoding.get(name) for name in _ENCODED},
    }
    return {name: value for name, value in known.items() if value not in ("", None)}


def _evaluation_of(inputs: Mapping[str, Artifact], evaluation: Path) -> Artifact:
    opened = open_input(evaluation, steps=("evaluate",), reads=(METRICS, PREDICTIONS))
    for name, artifact in inputs.items():
        if opened.inputs.get(name) != artifact.digest:
            raise KfrecError(f"{evaluation}: not an evaluation of {name} {artifact.path}; run the evaluate step again")
    for name in (METRICS, PREDICTIONS):
        opened.file(name)
    return opened


def _example(spec: FeatureSpec, model: ExportedModel) -> dict[str, np.ndarray]:
    """The first test samples, as the model reads them."""
    from components.records import Records

    return next(Records(spec, "test", features=list(model.inputs)).batches(_EXAMPLE_ROWS))


def _score_of(evaluation: Path, metrics: Mapping[str, Any], task: TaskDefinition) -> float:
    score = task.score_in(metrics)
    if score is None:
        name = f"test_{task.primary.name}"
        raise KfrecError(
            f"{evaluation / METRICS}: {name} is {metrics.get(name)!r}, not a finite number, so the model is not "
            "registered; evaluate again, or train again with a lower learning rate if its scores are not finite"
        )
    return score


def _registration(name: str, version: int, run_id: str, decision: Decision) -> dict[str, Any]:
    noted = dataclasses.asdict(decision)
    before = {"champion_version_before": noted.pop("champion_version")}
    return {"registered_model": name, "version": version, "run_id": run_id, **before, **noted}
