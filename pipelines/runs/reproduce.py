"""Repeats a run and compares the results."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.artifacts import open_artifact
from components.artifacts.folder import artifact_at
from components.artifacts.notes import read_notes
from components.errors import KfrecError
from components.steps.catalog import STEPS
from pipelines.defaults import TRAINING, Pipeline
from pipelines.local import arguments_of, check_environment, train
from pipelines.runs.earlier import Earlier
from pipelines.runs.lifecycle import begin, running
from pipelines.runs.record import read_summary
from pipelines.summary import digests_of, repeatable

# Registration depends on the current champion, and would add another version.
_LAST = "evaluate"
_SHOWN = 12
# Belongs to the machine, not to the run.
_PLACE = "cache_dir"


@dataclass(frozen=True)
class Finding:
    """An artifact or a metric of both runs.

    Attributes:
        files: paths that differ, if the first run's artifact still exists.
    """

    name: str
    then: Any
    now: Any
    files: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether both are equal."""
        return bool(self.then == self.now)

    def __str__(self) -> str:
        then, now = (value[:_SHOWN] if isinstance(value, str) else value for value in (self.then, self.now))
        if self.is_same:
            return f"same     {self.name} {now}"
        files = f" ({', '.join(self.files)})" if self.files else ""
        return f"differs  {self.name} {then} then, {now} now{files}"


def reproduce(path: Path, workdir: Path) -> list[Finding]:
    """Runs the steps of a run again up to the evaluation, in a new run folder, with the same parameters and seeds.

    Returns:
        Artifacts, then metrics.

    Raises:
        KfrecError: the file is not a run's, a parameter no longer exists, or a step failed.
    """
    summary = read_summary(path)
    try:
        pipeline = Pipeline(TRAINING, **summary["pipeline"])
        parameters = {name: value for name, value in summary["parameters"].items() if name != _PLACE}
        digests, seed = dict(summary["digests"]), int(summary["seed"])
    except (KeyError, TypeError, ValueError):
        raise KfrecError(f"{path}: written by an older kfrec, which kept no digests; run it again first") from None
    arguments = arguments_of(pipeline, parameters | {"train_seed": seed}, workdir)
    check_environment(pipeline, arguments)
    record = begin(pipeline, arguments, workdir, purpose=shlex.join(["kfrec", "reproduce", str(path.absolute())]))
    with running(record) as output:
        train(pipeline, arguments, record, Earlier(), output, last=_LAST)
        record.message = f"repeats {path.absolute()}"
        now = digests_of(output.finished)
        outputs = {name: Path(to) for event in output.finished.values() for name, to in event["outputs"].items()}
        findings = [*_artifacts(summary, digests, now, outputs), *_metrics(summary["metrics"], outputs)]
        body = [vars(finding) | {"is_same": finding.is_same} for finding in findings]
        (record.folder / "reproduction.json").write_text(json.dumps(body, indent=2) + "\n")
    return findings


def _artifacts(
    summary: Mapping[str, Any], then: Mapping[str, str], now: Mapping[str, str], outputs: Mapping[str, Path]
) -> Iterator[Finding]:
    for name, digest in now.items():
        first = Path(summary.get("artifacts", {}).get(name, ""))
        files = () if then.get(name) == digest else _differing(first, outputs[name])
        yield Finding(name, then.get(name, "none"), digest, files)


def _differing(first: Path, second: Path) -> tuple[str, ...]:
    """The files that differ between two artifacts, if the first still exists."""
    then = artifact_at(first) if first.is_dir() else None
    if then is None:
        return ()
    made = open_artifact(second)
    varying = STEPS[made.step].varying
    sums = [{each.path: each.crc32c for each in repeatable(one, varying).files} for one in (then, made)]
    return tuple(sorted(path for path in sums[0] | sums[1] if sums[0].get(path) != sums[1].get(path)))


def _metrics(then: Mapping[str, Any], outputs: Mapping[str, Path]) -> Iterator[Finding]:
    """The task's metrics, without durations and rates."""
    now = read_notes(outputs["model"] / "training.json") | read_notes(outputs["evaluation"] / "metrics.json")
    for name, value in then.items():
        if name.startswith(("train_", "validation_", "test_")) and name != "train_samples_per_second":
            yield Finding(name, value, now.get(name))
