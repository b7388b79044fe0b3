"""Finished steps and training checkpoints of earlier attempts at a run."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.artifacts import Artifact, open_artifact
from components.download.wanted import changed_files
from components.errors import KfrecError
from components.parameters import build, parameters_of
from components.steps.catalog import STEPS
from components.steps.recorded import EXTENSION, FILE, recorded
from components.steps.training_parameters import MAY_CHANGE
from components.train.failure import has_checkpoint, made_with
from pipelines.defaults import OF_REFIT, REFIT, Pipeline
from pipelines.parameters import BOUND, step_parameters
from pipelines.runs.record import RUNNING, RunRecord

# Set by each attempt; it does not affect the result of a training.
_CHECKPOINTS = "load_checkpoint_path"
# Below a run's folder: the checkpoints of a training, and the folder in which its step works.
_LEFT_CHECKPOINTS, _TRAINING = "*/train/.model.checkpoint", "*/train/.model.partial"


@dataclass(frozen=True)
class Earlier:
    """Results that a later attempt reuses.

    Attributes:
        run_id: of the pipeline run; empty generates a new one.
        steps: finished and valid steps, name to "finished" event.
    """

    run_id: str = ""
    steps: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def artifacts(self) -> dict[str, str]:
        """Output name to folder."""
        return {name: path for event in self.steps.values() for name, path in event["outputs"].items()}


class LosesEpochs(KfrecError):
    """A training would begin again, though one that has not ended left checkpoints."""


class Outdated(Exception):
    """An output that is complete, and not what its step would write now; the message tells the difference."""


def finished_steps(run: RunRecord, pipeline: Pipeline, arguments: Mapping[str, Any], last: str = "") -> Earlier:
    """The finished steps of a run with valid outputs; see ``_valid``.

    Args:
        last: the last step to check; empty checks all.
    """
    steps = pipeline.steps[: pipeline.steps.index(last) + 1] if last else pipeline.steps
    return Earlier(run.run_id, _valid(steps, run.steps, "", pipeline, arguments, {}))


def finished_refit(
    run_id: str,
    events: Mapping[str, Mapping[str, Any]],
    pipeline: Pipeline,
    arguments: Mapping[str, Any],
    artifacts: Mapping[str, str],
) -> Earlier:
    """The finished steps of the refit of a run with valid outputs; see ``_valid``.

    Args:
        events: those of an earlier attempt, by step.
        artifacts: output name to folder of the run's own steps.
    """
    made = {name: open_artifact(artifacts[name]) for name in ("raw", "evaluation")}
    return Earlier(run_id, _valid(REFIT, events, OF_REFIT, pipeline, arguments, made))


def _valid(
    steps: Sequence[str],
    events: Mapping[str, Mapping[str, Any]],
    part: str,
    pipeline: Pipeline,
    arguments: Mapping[str, Any],
    made: dict[str, Artifact],
) -> dict[str, Mapping[str, Any]]:
    """The finished steps of a run with valid outputs, up to the first one without; tells why that runs again.

    An output is valid if its files match the checksums in its manifest, and the manifest matches what the step would be
    given now: the digests of its inputs, its parameters, the files that they name, the code of extensions, and the
    files at the source. This reads every file.

    Args:
        events: by name, which ``part`` begins.
        made: artifacts by name; receives the outputs of valid steps.
    """
    valid: dict[str, Mapping[str, Any]] = {}
    for name in steps:
        event = events.get(part + name)
        if event is None:
            break
        shown = part + name
        again = f"{shown} and later steps run again" if name != steps[-1] else f"{shown} runs again"
        try:
            for output, path in event["outputs"].items():
                made[output] = _verified(name, Path(path), pipeline, arguments, made)
        except Outdated as reason:
            _echo(f"{reason}: {again}")
            break
        except KfrecError as reason:
            _echo(f"{shown:<10} again: {reason}")
            break
        valid[name] = event
    return valid


def checkpoints_of(
    run: RunRecord, pipeline: Pipeline, arguments: Mapping[str, Any], earlier: Earlier, part: str = ""
) -> str:
    """Folder of the newest checkpoints of this run's training that fit what it would be given now; empty without any.

    Args:
        part: begins the names of the steps of a refit.

    Raises:
        LosesEpochs: those of a training that has not ended do not fit, because a parameter, the data or an extension
            has changed.
    """
    reasons = {}
    for folder, values in _trainings(run, part):
        try:
            _require_same_training(values, pipeline, arguments, earlier)
        except Outdated as reason:
            reasons[folder] = reason
        else:
            return str(folder)
    if reasons and part + "train" not in run.steps:
        newest, why = next(iter(reasons.items()))
        raise LosesEpochs(
            f"{newest}: these checkpoints do not fit any more, and their epochs would be lost: {why}; undo that, or "
            "delete the folder to train from the start (epochs, patience, export_epoch, workers and logging may change)"
        )
    return ""


def _trainings(run: RunRecord, part: str) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The folders with checkpoints of a run's training, the newest first, and what it was given."""
    with suppress(KfrecError, KeyError):  # it has not ended, or its model is gone
        model = open_artifact(run.steps[part + "train"]["outputs"]["model"])
        yield model.path / "checkpoint", {"inputs": dict(model.inputs), "parameters": model.parameters}
    for folder in sorted(run.folder.glob(_LEFT_CHECKPOINTS), reverse=True):
        values = made_with(folder)
        if has_checkpoint(folder) and values.get("parameters", {}).get("refitting", False) == bool(part):
            yield folder, values


def checkpoints_in_use(run: RunRecord) -> Path:
    """The folder of checkpoints of the training that runs now.

    Raises:
        KfrecError: none does.
    """
    working = [*run.folder.glob(_TRAINING)] if run.state_now() == RUNNING else []
    if not working:
        raise KfrecError(f"{run.folder}: no training runs here now; kfrec runs lists the runs and their states")
    return working[0].with_name(Path(_LEFT_CHECKPOINTS).name)


def _require_same_training(
    values: Mapping[str, Any], pipeline: Pipeline, arguments: Mapping[str, Any], earlier: Earlier
) -> None:
    """Compares what checkpoints were made with to what the training would be given now.

    Raises:
        Outdated: they differ.
    """
    if not values:
        return
    if "tfrecord" not in earlier.artifacts:
        raise Outdated("the records are written again")
    if values["inputs"] != {"tfrecord": open_artifact(earlier.artifacts["tfrecord"]).digest}:
        raise Outdated("the records have changed")
    _require_same("train", pipeline, arguments, values["parameters"], MAY_CHANGE)


def _verified(
    step: str, path: Path, pipeline: Pipeline, arguments: Mapping[str, Any], made: Mapping[str, Artifact]
) -> Artifact:
    """Opens and validates an output of a step.

    Raises:
        KfrecError: it is incomplete.
        Outdated: it was made from other inputs, or with other parameters, files or extensions.
    """
    artifact = open_artifact(path, steps=(step,))
    artifact.verify()
    if dict(artifact.inputs) != {name: made[name].digest for name in STEPS[step].inputs}:
        raise Outdated(f"the input of {step} has changed")
    _require_same(step, pipeline, arguments, artifact.parameters)
    if step == "download":
        _require_same_source(pipeline, arguments, artifact)
    return artifact


def _require_same(
    step: str,
    pipeline: Pipeline,
    arguments: Mapping[str, Any],
    then: Mapping[str, Any],
    except_for: Collection[str] = (),
) -> None:
    """Compares the parameters of a step now with recorded ones; later additions to the record are not compared.

    Raises:
        Outdated: they differ.
    """
    now = recorded(_built(step, pipeline, arguments))
    names = {parameter.name: parameter.pipeline_name for parameter in step_parameters(STEPS[step], pipeline)}
    ignored = {*BOUND, _CHECKPOINTS, *except_for}
    differences = [
        _difference(names, name, then[name], now.get(name), arguments)
        for name in then
        if name not in ignored and (name in now or name.startswith((EXTENSION, FILE))) and now.get(name) != then[name]
    ]
    if differences:
        raise Outdated("; ".join(dict.fromkeys(differences)))


def _difference(names: Mapping[str, str], name: str, then: Any, now: Any, arguments: Mapping[str, Any]) -> str:
    if name.startswith(EXTENSION):
        return f"the extension {then} is now {now or 'part of kfrec'}"
    if name.startswith(FILE):
        wide = names[name.removeprefix(FILE)]
        return f"the file {arguments[wide]} (parameter {wide}) has changed"
    return f"parameter {names[name]} changed from {then!r} to {now!r}"


def _require_same_source(pipeline: Pipeline, arguments: Mapping[str, Any], raw: Artifact) -> None:
    """Compares the files that were fetched with those at the source.

    Raises:
        Outdated: they differ.
    """
    try:
        changed = changed_files(_built("download", pipeline, arguments), raw)
    except KfrecError as reason:
        _echo(f"{'download':<10} keeps what it fetched, since the source cannot be compared with it: {reason}")
        return
    if changed:
        raise Outdated("; ".join(changed))


def _built(step: str, pipeline: Pipeline, arguments: Mapping[str, Any]) -> Any:
    """The parameters of a step, without those that each attempt sets."""
    chosen, own = STEPS[step], step_parameters(STEPS[step], pipeline)
    values = {parameter.name: arguments[parameter.pipeline_name] for parameter in own}
    group = chosen.parameters(pipeline.choices)
    declared = {parameter.name for parameter in parameters_of(group)}
    return build(group, values | {name: value for name, value in pipeline.choices.items() if name in declared})


def _echo(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
