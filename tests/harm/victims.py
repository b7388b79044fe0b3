"""What chaos runs and kills: each step, each rank of a training, each worker; and how its results are compared."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.artifacts import open_artifact
from components.lifetime import descendants
from components.steps.catalog import STEPS
from components.training_log import LOG, TRAINING, read_log
from tests.harm.place import folders_of
from tests.harm.test_kills import alive

TOLERANCE = 1e-6
TRAIN, REPORT = "train", "report.html"
# Options that make a step of these data last some seconds, and give it workers to lose.
OPTIONS = {
    "find": ["--data_prefix=versions"],
    "download": ["--synthetic_users=3000"],
    "preprocess": ["--workers=2", "--reviews_per_partition=400"],
    "tfrecord": ["--workers=2", "--samples_per_shard=64"],
    "train": ["--workers=2", "--global_batch_size=64", "--model_type=din", "--embedding_dim=4", "--epochs=8",
              "--patience=0", "--checkpoint_steps=5", "--log_steps=1", "--seed=1"],
    "predict": ["--beside=false"],
}  # fmt: skip
# What differs between two undisturbed runs: ids and versions that a registry gives, and times.
_DRAWN = {"run_id", "version", "alias", "reason", "champion_version_before", "seconds"}


@dataclass(frozen=True)
class Victim:
    """A process to kill.

    Attributes:
        name: for the table.
        step: the step that is run.
        chosen: the process to kill, from the step's process and the mark of all its processes; None while there is no
            such process.
        signals: that it gets.
        hangs: whether it is stopped without an end (SIGSTOP), so that the others have to notice.
    """

    name: str
    step: str
    chosen: Callable[[subprocess.Popen[str], str], int | None]
    signals: tuple[signal.Signals, ...] = (signal.SIGKILL, signal.SIGTERM)

    @property
    def hangs(self) -> bool:
        return signal.SIGSTOP in self.signals

    @property
    def made(self) -> str:
        """The folder that the step writes."""
        return f"made-{self.step}"

    def command(self, folder: Path) -> list[str]:
        """What ``python -m`` runs; a training goes on from the checkpoints that an earlier one kept."""
        words = [f"components.{self.step}", *folders_of(self.step, self.made), *OPTIONS.get(self.step, ())]
        kept = folder / f".{self.made}.checkpoint"
        return words + ([f"--load_checkpoint_path={kept}"] if any(kept.glob("*.index")) else [])


def _itself(process: subprocess.Popen[str], mark: str) -> int:
    return process.pid


def _rank(number: int) -> Callable[[subprocess.Popen[str], str], int | None]:
    def chosen(process: subprocess.Popen[str], mark: str) -> int | None:
        for pid in alive(mark):
            try:
                environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"HOROVOD_RANK={number}".encode() in environment and b"components.train.worker" in command:
                return pid
        return None

    return chosen


def _descendant(rng: random.Random) -> Callable[[subprocess.Popen[str], str], int | None]:
    def chosen(process: subprocess.Popen[str], mark: str) -> int | None:
        found = descendants(process.pid)
        return rng.choice(found) if found else None

    return chosen


def victims(rng: random.Random) -> list[Victim]:
    """Every step, and the processes that steps start."""
    workers = _descendant(rng)
    return [
        *(Victim(step, step, _itself) for step in STEPS),
        *(Victim(f"train, rank {number}", TRAIN, _rank(number)) for number in (0, 1)),
        *(Victim(f"train, rank {number} hangs", TRAIN, _rank(number), (signal.SIGSTOP,)) for number in (0, 1)),
        *(Victim(f"{step}, a worker", step, workers, (signal.SIGKILL,)) for step in ("preprocess", "tfrecord")),
    ]


@dataclass
class Reference:
    """An undisturbed run.

    Attributes:
        seconds: it took.
        found: its results, comparable.
    """

    seconds: float
    found: dict[str, Any] = field(default_factory=dict)


def results_of(step: str, folder: Path) -> dict[str, Any]:
    """What two runs of a step have in common: files by checksum; of a training the losses and scores, as floats.

    The report is compared without the MLflow run, of which each evaluation of a model without one starts its own.

    Raises:
        KfrecError: the artifact is unfinished or damaged.
    """
    artifact = open_artifact(folder)
    artifact.verify()
    if step == TRAIN:
        return _curve(folder)
    if step == "register":
        return _registered(json.loads((folder / "registration.json").read_text()))
    found: dict[str, Any] = {entry.path: entry.crc32c for entry in artifact.files}
    if REPORT in found:
        found[REPORT] = zlib.crc32(re.sub(rb"\b[0-9a-f]{32}\b", b"", (folder / REPORT).read_bytes()))
    return found


def difference(reference: Mapping[str, Any], found: Mapping[str, Any], step: str) -> str:
    """What is other than in an undisturbed run; empty where nothing is."""
    # A resumed training has written the losses of its last attempt only.
    keys = reference.keys() & found.keys() if step == TRAIN else reference.keys() | found.keys()
    if step == TRAIN and not [key for key in keys if key.startswith("epoch")]:
        return "no epoch in common"
    for key in sorted(keys):
        wanted, given = reference.get(key), found.get(key)
        if isinstance(wanted, float) and isinstance(given, float):
            if abs(wanted - given) > TOLERANCE * max(1.0, abs(wanted)):
                return f"{key} is {given}, undisturbed {wanted}"
        elif wanted != given:
            return f"{key} is {given!r}, undisturbed {wanted!r}"
    return ""


def _curve(folder: Path) -> dict[str, float]:
    losses = {
        "loss of epoch {} step {}".format(*record["step"]): float(record["data"]["loss"])
        for record in read_log(folder / LOG)
        if isinstance(record["step"], list) and len(record["step"]) == 2
    }
    scores = {
        f"epoch {epoch['epoch']} {name}": float(value)
        for epoch in json.loads((folder / TRAINING).read_text())["epochs"]
        for name, value in epoch.items()
        if name.startswith(("train_", "validation_")) and value is not None
    }
    return losses | scores


def _registered(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in _DRAWN}


def wait(process: subprocess.Popen[str], seconds: float) -> bool:
    """Waits; whether the process is still there afterwards."""
    until = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    return process.poll() is None
