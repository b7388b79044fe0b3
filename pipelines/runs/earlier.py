"""Finished steps and training checkpoints of earlier attempts at a run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.artifacts import Artifact, open_artifact
from components.errors import KfrecError
from components.steps.catalog import STEPS
from components.steps.parameter import as_plain, build
from components.train.checkpoints.kept import has_checkpoint
from pipelines.defaults import Pipeline
from pipelines.parameters import BOUND, step_parameters
from pipelines.runs.record import RunRecord

# Set by each attempt; it does not affect the result of a training.
_CHECKPOINTS = "load_checkpoint_path"
_LEFT_CHECKPOINTS = "*/train/.model.checkpoint"


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


def finished_steps(run: RunRecord, pipeline: Pipeline, arguments: Mapping[str, Any], last: str = "") -> Earlier:
    """The finished steps of a run with valid outputs, up to the first one without.

    An output is valid if its files match the checksums in its manifest, and the manifest matches the digests of the
    step's inputs and this run's parameters. This reads every file.

    Args:
        run: its earlier attempts.
        pipeline: defines the steps.
        arguments: its parameters by pipeline-wide name.
        last: the last step to check; empty checks all.
    """
    valid: dict[str, Mapping[str, Any]] = {}
    made: dict[str, Artifact] = {}
    for name in pipeline.steps:
        event = run.steps.get(name)
        if event is None:
            break
        try:
            for output, path in event["outputs"].items():
                made[output] = _verified(name, Path(path), pipeline, arguments, made)
        except KfrecError as reason:
            print(f"{name:<10} again: {reason}", file=sys.stderr, flush=True)
            break
        valid[name] = event
        if name == last:
            break
    return Earlier(run.run_id, valid)


def checkpoints_of(run: RunRecord) -> str:
    """Folder of the newest checkpoints of this run's training; empty if there are none."""
    folders = [path for path in sorted(run.folder.glob(_LEFT_CHECKPOINTS)) if has_checkpoint(path)]
    return str(folders[-1]) if folders else ""


def _verified(
    step: str, path: Path, pipeline: Pipeline, arguments: Mapping[str, Any], made: Mapping[str, Artifact]
) -> Artifact:
    """Opens and validates an output of a step.

    Raises:
        KfrecError: it is incomplete, or was made from other inputs or with other parameters.
    """
    artifact = open_artifact(path, steps=(step,))
    artifact.verify()
    inputs = {name: made[name].digest for name in STEPS[step].inputs}
    if dict(artifact.inputs) != inputs:
        raise KfrecError(f"{path}: was made from other inputs")
    now, then = _compared(step, pipeline, arguments), artifact.parameters
    changed = [name for name, value in now.items() if name in then and then[name] != value]
    if changed:
        raise KfrecError(f"{path}: was made with another {', '.join(changed)}")
    return artifact


def _compared(step: str, pipeline: Pipeline, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A step's parameters in the manifest's form, without those that vary between attempts."""
    chosen, own = STEPS[step], step_parameters(STEPS[step], pipeline)
    values = {parameter.name: arguments[parameter.pipeline_name] for parameter in own}
    built = as_plain(build(chosen.parameters(pipeline.choices), values))
    return {name: value for name, value in built.items() if name not in (*BOUND, _CHECKPOINTS)}
