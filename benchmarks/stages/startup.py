"""The overhead of a command or a step: imports, and the transfer of an artifact."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.measuring import Figure, Plan, Report, seconds
from benchmarks.samples import write_samples
from components.artifacts import publishing
from components.artifacts.remote import fetch_artifact, publish_remote
from components.steps.catalog import STEPS, TfrecordParameters
from components.tfrecord.step import run

FILES, FILE_MB = 16, 16
# Code that compiles a step's kernels on tiny inputs.
_CONVERT = """
import sys
from pathlib import Path
from components.steps.catalog import TfrecordParameters
from components.tfrecord.step import run
run(TfrecordParameters(), parquet=Path(sys.argv[1]) / "parquet", tfrecord=Path(sys.argv[2]) / "tfrecord")
"""
_TRAIN = """
import sys
from pathlib import Path
from benchmarks.stages.step import our_step, tensors
from components.feature_spec import load_feature_spec
from components.records import Records
next(Records(load_feature_spec(Path(sys.argv[1]) / "tfrecord"), "train").batches(64))
our_step().run(tensors(64, 1)).numpy()
"""


def measure(folder: Path, plan: Plan, report: Report) -> None:
    help_ = [_command(str(Path(sys.executable).with_name("kfrec")), "--help") for _ in range(plan.runs)]
    report.add(Figure("start-up", "kfrec --help", "s", help_, target=0.5, lower_is_better=True))
    python = [_command(sys.executable, "-c", "pass") for _ in range(plan.runs)]
    for step in STEPS:
        # The imports of a pod: KFP's executor in runtime mode, without the compiler, and the step's own modules.
        modules = f"kfp.dsl.executor_main, components.steps.command, components.{step}.step"
        values = [_command(sys.executable, "-c", f"import {modules}", _KFP_RUNTIME="true") for _ in range(plan.runs)]
        report.add(Figure("start-up", f"imports of {step} under KFP", "s", values))
    report.add(Figure("start-up", "Python alone", "s", python))
    _carry(folder, plan, report)
    if plan.full:
        _compile(folder, plan, report)


def _compile(folder: Path, plan: Plan, report: Report) -> None:
    """Compile time of a step's kernels in a new pod; NUMBA_CACHE_DIR caches them."""
    run(TfrecordParameters(), parquet=write_samples(folder / "parquet", 1000, 100), tfrecord=folder / "tfrecord")
    for name, code in (("converting a thousand samples", _CONVERT), ("reading and training one batch", _TRAIN)):
        values: dict[str, list[float]] = {"compiling kernels": [], "with compiled kernels": []}
        for number in range(plan.runs):
            cache = folder / name / str(number)  # empty for the first of the two
            for what, taken in values.items():
                command = (sys.executable, "-c", code, str(folder), str(folder / f"{name} {number} {what}"))
                taken.append(_command(*command, NUMBA_CACHE_DIR=str(cache)))
        for what, taken in values.items():
            report.add(Figure("start-up", f"{name}, {what}", "s", taken))


def _carry(folder: Path, plan: Plan, report: Report) -> None:
    """The storage layer without network: checksums, copies and manifests, on a folder instead of a bucket."""
    block = os.urandom(FILE_MB << 20)
    (folder / "bucket").mkdir()

    def write() -> None:
        with publishing(folder / "artifact", step="tfrecord") as staging:
            for number in range(FILES):
                (staging.path / f"{number}.bin").write_bytes(block)

    def fetch() -> None:
        shutil.rmtree(folder / "fetched", ignore_errors=True)
        fetch_artifact(str(folder / "bucket"), folder / "fetched")

    size = f"an artifact of {FILES * FILE_MB} MB"
    for name, job in (
        (f"writing {size} with its manifest", write),
        (f"publishing {size}", lambda: publish_remote(folder / "artifact", str(folder / "bucket"))),
        (f"fetching and checking {size}", fetch),
    ):
        report.add(Figure("start-up", name, "s", [seconds(job) for _ in range(plan.runs)]))


def _command(*command: str, **environment: str) -> float:
    quiet = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", **environment}
    return seconds(lambda: subprocess.run(command, check=True, capture_output=True, env=quiet))
