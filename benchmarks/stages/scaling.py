"""Weak scaling of one and two ranks, one thread each; bytes sent; time that a step waits for input."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import tensorflow as tf

from benchmarks.drawn import criteo, outbrain, write_drawn
from benchmarks.measuring import Figure, Plan, Report, alternated
from benchmarks.samples import write_samples
from benchmarks.stages.step import our_step, tensors
from components import registry
from components.models.loss import loss_of
from components.models.ops.rows import sum_by_row
from components.steps.catalog import TfrecordParameters
from components.tfrecord.step import run
from components.train.launching.launch import LocalLauncher

# A rank's share of the published batch of 131,072 on eight GPUs.
BATCH_A_RANK = 16_384
ROWS = 65_536


def measure(folder: Path, plan: Plan, report: Report) -> None:
    _measure(folder / "sim", "sim", write_samples(folder / "parquet", ROWS, 2000), 3 * plan.runs, plan, report)
    report.add(Figure("scaling", "a rank's share of the gradients of a step", "MB", [sent_megabytes(BATCH_A_RANK)],
                      note="the small weights whole, of the tables each row the batch names once"))  # fmt: skip
    for model, spec in (("dlrm", criteo()), ("wide_and_deep", outbrain())):
        parquet = write_drawn(folder / f"{model}-parquet", spec, ROWS, 2000)
        _measure(folder / model, model, parquet, plan.runs, plan, report)  # seconds a step


def _measure(folder: Path, model: str, parquet: Path, runs: int, plan: Plan, report: Report) -> None:
    """Measures one and two ranks of a model, with interleaved steps."""
    folder.mkdir()
    run(TfrecordParameters(), parquet=parquet, tfrecord=folder / "tfrecord")
    with ExitStack() as stack:
        started = [_Training(folder, model, ranks) for ranks in ((1, 2, 1) if plan.full else (1, 2))]
        one, two, *others = [stack.enter_context(training) for training in started]
        _step_of(one, *others, two)  # compiles
        waits: list[float] = []

        def alone() -> float:
            taken = _step_of(one)
            ((_, cycle, step),) = taken
            waits.append(1 - step / cycle)
            return _throughput(taken)

        def apart() -> float:
            return sum(_throughput(taken[None]) for taken in _step_of(one, *others))

        jobs = {"one": alone, "two": lambda: _throughput(_step_of(two))} | ({"apart": apart} if others else {})
        values = alternated(runs, **jobs)  # the time of a step varies by a tenth
    title = registry.model(model).title
    name = f"{title}, two ranks under Gloo, batch {BATCH_A_RANK} a rank, one thread each"
    report.add(Figure("scaling", name, "samples/s", values["two"], values["one"], target_ratio=1.7))
    if others:
        name = f"{title}, two such processes that exchange nothing"
        report.add(Figure("scaling", name, "samples/s", values["apart"], values["one"],
                          note="what this machine leaves of the second core"))  # fmt: skip
    report.add(Figure("input", f"{title}, share of a training step spent waiting for the batch", "", waits, target=0.05,
                      lower_is_better=True))  # fmt: skip


def sent_megabytes(rows: int) -> float:
    """Megabytes that a rank sends in a step's reductions, for ``rows`` samples per rank."""
    model = our_step().model
    data = tensors(rows, 1)
    with tf.GradientTape() as tape:
        features = {name: values for name, values in data.items() if name != "label"}
        _, terms = model.loss_terms(features, {"label": data["label"]}, tf.ones([rows], tf.bool))
        loss = loss_of(terms.values())
    gradients = tape.gradient(loss, model.trainable_variables)
    parts = [part for g in gradients for part in (sum_by_row(g) if isinstance(g, tf.IndexedSlices) else (g,))]
    return sum(int(tf.size(part)) * part.dtype.size for part in parts) / 1e6


class _Training:
    """The workers of a training, paused by SIGSTOP between requested steps.

    Args:
        folder: holds the records; receives the workers' log.
        model: name; its parameters are the defaults.
        ranks: number of workers.
    """

    def __init__(self, folder: Path, model: str, ranks: int) -> None:
        self._ranks, self._log = ranks, (folder / "workers.log").open("a+")
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(address := str(folder / f"{id(self):x}"))
        self._server.listen()
        self._server.settimeout(1)
        launcher = LocalLauncher("gloo", module="benchmarks.worker")
        command = launcher.command(ranks, [address, model, str(folder / "tfrecord"), str(BATCH_A_RANK)])
        self._open = ExitStack()
        environments = self._open.enter_context(launcher.environments(ranks))
        self._processes = [
            subprocess.Popen(command, env=environment, stdout=self._log, stderr=self._log)
            for environment in environments
        ]

    def __enter__(self) -> _Training:
        with self._server:
            self._workers = [self._accept() for _ in range(self._ranks)]
        self._pids = [int(self._line(worker)) for worker in self._workers]
        self._signal(signal.SIGSTOP)
        return self

    def __exit__(self, *_: object) -> None:
        self._signal(signal.SIGCONT)
        for worker in self._workers:
            worker.close()
        for process in self._processes:
            process.wait()
        self._open.close()
        self._log.close()

    def ask(self) -> None:
        """Requests a step of the workers."""
        self._signal(signal.SIGCONT)
        for worker in self._workers:
            print(file=worker, flush=True)

    def taken(self) -> list[Any]:
        """Samples, cycle seconds and step seconds of each worker."""
        answers = [json.loads(self._line(worker)) for worker in self._workers]
        self._signal(signal.SIGSTOP)  # Horovod's thread never idles by itself
        return answers

    def _accept(self) -> IO[str]:
        while all(process.poll() is None for process in self._processes):
            with suppress(TimeoutError):
                return self._server.accept()[0].makefile("rw")
        raise self._ended()

    def _line(self, worker: IO[str]) -> str:
        line = worker.readline()
        if not line:
            raise self._ended()
        return line

    def _ended(self) -> RuntimeError:
        self._log.seek(0)
        sys.stderr.write(self._log.read()[-2000:])
        return RuntimeError("a worker ended before its work was done; what it said is above")

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._pids:
            with suppress(ProcessLookupError):  # a dead worker is reported by its connection
                os.kill(pid, number)


def _step_of(*trainings: _Training) -> np.ndarray:
    """Runs one step of all trainings concurrently; returns [workers, 3]: samples, cycle seconds, step seconds."""
    for training in trainings:
        training.ask()
    return np.array([answer for training in trainings for answer in training.taken()])


def _throughput(taken: np.ndarray) -> float:
    """Samples/s of workers; the slowest one determines the time of a step."""
    samples, cycles, _ = taken.T
    return samples.sum() / cycles.max()
