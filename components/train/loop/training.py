"""The training loop: epochs of steps, losses read in bulk, checkpoints, and validation after each epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from components.feature_spec.spec import VALIDATION
from components.models.optimizers.groups import Optimizers
from components.progress import duration, emit
from components.steps.training_parameters import BEST
from components.tasks import TaskDefinition
from components.train.loop.averages import Averages
from components.train.loop.benchmark import Meter
from components.train.loop.checkpoint import Checkpoints, described, read_progress
from components.train.loop.loss_scale import LossScale
from components.train.loop.progress import TrainingProgress
from components.train.loop.ranks import SharedError, on_first, together
from components.train.loop.session import Session, load_weights
from components.train.loop.starts import begin
from components.train.loop.state import shared_state_of
from components.train.loop.stopping import Watchdog, take_request
from components.train.loop.training_step import Inputs, StepOptions, TrainingStep
from components.train.results import CHECKPOINT, Outcome
from components.training_log import MEASURED, PARAMETER, TrainingLog, step_point


class Training:
    """Trains a session's model to the end of its last epoch, until patience ends, or until it is asked to stop.

    Args:
        seed: of weights and batch order, not -1; a checkpoint's seed replaces it.
    """

    def __init__(self, session: Session, seed: int) -> None:
        parameters, data = session.parameters, session.data
        self._session = session
        self._ranks, self._data, self._parameters = session.ranks, data, parameters
        groups = session.definition.optimizers(parameters, session.model, data.steps_per_epoch)
        self._optimizer = Optimizers(groups, session.model.trainable_variables)
        self._loss_scale = LossScale(parameters.amp, parameters.loss_scale)
        self._averages = Averages(session.model.trainable_variables, parameters.average_decay)
        self._metrics = session.task.streaming(True, parameters)
        self._meter = Meter()
        self._watchdog = Watchdog(session.ranks.rank, parameters.stall_seconds if session.ranks.size > 1 else 0)
        self.progress = TrainingProgress(
            seed=seed,
            global_batch_size=parameters.global_batch_size,
            steps_per_epoch=data.steps_per_epoch,
            optimizer=self._optimizer.description,
            variables=described(session.model),
            average_decay=parameters.average_decay,
            validation_rows=data.scored.rows if data.scored is not None else 0,
        )
        self._folder = Path(parameters.save_checkpoint_path or Path(parameters.results_dir) / CHECKPOINT)
        self._stopped_after = 0  # steps of the last epoch, if a request has ended it
        self._rows_left = 0  # samples to the end of the last epoch
        self._checkpoints = Checkpoints(
            self._folder,
            session.model,
            self._optimizer,
            self._loss_scale,
            self._averages,
            self._ranks.rank,
            session.checkpoint_saved,
        )
        self.progress.tables = self._checkpoints.layout
        self._begin()
        self.step = TrainingStep(
            session.model,
            self._optimizer,
            session.ranks,
            self._metrics,
            self._loss_scale,
            Inputs(
                data.train_transfer.signature,
                data.targets,
                session.kept,
                data.one_size(data.train.rows, parameters.global_batch_size),
                data.train_transfer.features,
                data.weight,
            ),
            StepOptions(
                xla=parameters.xla,
                fp16_allreduce=parameters.fp16_allreduce,
                seed=self.progress.seed,
                micro=data.micro_size(self._optimizer.keeps_sparse),
                clip_norm=parameters.clip_norm,
            ),
            self._averages,
        )
        self.exchange = self._choose_exchange() if self._ranks.size > 1 else {}

    def run(self, log: TrainingLog) -> None:
        """Trains; afterwards ``progress`` and ``outcome`` hold the results, and the model the weights to export.

        Raises:
            SharedError: the loss is not finite.
            KfrecError: a record is corrupt.
        """
        if self._is_over():
            self._save()  # resumed after its last epoch: its own folder may have no checkpoint yet
        if self.exchange:
            log.write(PARAMETER, {"gradient_exchange": self.exchange})
        while not self._is_over():
            self._epoch(log)
        if self.progress.best not in ("", self.progress.name):
            prefix = self._checkpoints.prefix(self.progress.best)
            load_weights(self._session, prefix, on_first(self._ranks, lambda: read_progress(prefix)))
        else:
            self._averages.assign_to(self._session.model.trainable_variables)

    @cached_property
    def _rows(self) -> list[int]:
        """Samples of each epoch."""
        return [self._data.rows_of_epoch(epoch) for epoch in range(self._data.epochs)]

    @property
    def trained_rows(self) -> list[int]:
        """Samples that each finished epoch has trained on."""
        *rows, last = [self._data.rows_of_epoch(epoch) for epoch in range(self.progress.epoch)]
        if self._stopped_after:
            last = sum(self._data.rows_of(self.progress.epoch - 1, step) for step in range(self._stopped_after))
        return [*rows, last]

    @property
    def outcome(self) -> Outcome:
        """Which of the finished epochs is exported."""
        progress, best, judge = self.progress, self._session.best_epoch(self.progress.epochs), self._session.judge
        return Outcome(
            epochs=progress.epoch,
            planned=max(self._data.epochs, progress.epoch),
            best=best,
            exported=best if progress.best else progress.epoch,
            metric=f"{VALIDATION} {judge.label}",
            score=progress.epochs[best - 1][f"{VALIDATION}_{judge.name}"] if best else None,
            is_judged=bool(self._data.samples.measured),
        )

    def _is_over(self) -> bool:
        """Whether no further epoch trains. The results are the first rank's, so that all ranks agree."""
        progress, patience = self.progress, self._parameters.patience
        best = self._session.best_epoch(progress.epochs)
        if self._stopped_after or progress.epoch >= self._data.epochs:
            return True
        return bool(patience and best) and progress.step == 0 and progress.epoch - best >= patience

    def _begin(self) -> None:
        """Gives every rank the first state of the training."""
        self.progress, totals = begin(self._session, self._checkpoints, self.progress)
        # The first rank continues the totals of all ranks; the sum at the end of the epoch is complete.
        if self._session.is_first and totals:
            self._metrics.load(totals)
        for part in (self._session.model, self._optimizer, self._loss_scale, self._averages):
            self._ranks.copy_variables(shared_state_of(part))

    def _choose_exchange(self) -> dict[str, str]:
        """Chooses how the gradients of each table are exchanged, by the rows of the first batch."""
        batches = self._data.training_batches(self.progress.seed, self.progress.epoch)
        transfer = self._data.train_transfer
        first = transfer.features(transfer.sent(together(self._ranks, lambda: next(batches))))
        exchange = self.step.choose_exchange(first)
        if exchange and self._session.is_first:
            rows = [name for name, how in exchange.items() if how == "rows"]
            dense = f"{len(exchange) - len(rows)} of {len(exchange)}"
            line = f"gradients of {dense} tables are summed whole over {self._ranks.size} ranks"
            named = ", ".join(rows[:5]) + (", ..." if len(rows) > 5 else "")
            print(line + (f"; exchanged by rows: {named}" if rows else ""), flush=True)
        return exchange

    def _epoch(self, log: TrainingLog) -> None:
        progress, every = self.progress, self._parameters.checkpoint_steps
        self._meter.next_epoch()
        earlier, began = progress.epoch_seconds, time.monotonic()
        sent, done = self._ranks.sent_bytes(), progress.step
        pending: list[tf.Tensor] = []
        epoch, last = progress.epoch, self._data.steps_of(progress.epoch)
        label = f"epoch {epoch + 1}/{self._data.epochs}"
        # All epochs in one bar, so that what remains is the time of the whole training.
        finished = sum(self._rows[:epoch]) + sum(self._data.rows_of(epoch, step) for step in range(progress.step))
        self._rows_left = sum(self._rows) - finished
        with self._session.progress(label, sum(self._rows), "samples", finished) as advance:
            self._meter.start()
            batches = self._session.training_batches(progress.seed, epoch, progress.step)
            positions = self._data.positions(epoch, progress.finished_steps, progress.step)
            for losses in self._watchdog.over(self.step.steps(batches, positions)):
                pending.append(losses)
                progress.step += 1
                advance(self._data.rows_of(epoch, progress.step - 1))
                is_last = progress.step == last
                is_saved = bool(every) and progress.global_step % every == 0 and not is_last
                if is_last or is_saved or progress.step % self._parameters.log_steps == 0 or self._meter.is_cold:
                    self._read(pending, log)
                    pending = []
                    if self._is_asked_to_stop():
                        self._stopped_after = progress.step
                        break
                if is_saved:
                    progress.epoch_seconds = earlier + time.monotonic() - began
                    self._save()
                    self._meter.start()
        sent = self._ranks.sent_bytes() - sent
        sent_a_step = sum(self._ranks.gather(sent)) / self._ranks.size / max(progress.step - done, 1)
        self._finish_epoch(earlier, began, sent_a_step, log)

    def _read(self, pending: list[tf.Tensor], log: TrainingLog) -> None:
        """Reads the losses of the steps since the last read, and logs them."""
        progress = self.progress
        with self._watchdog:  # on a GPU a step returns before its end
            losses = tf.stack(pending).numpy()
        first = progress.step - len(pending)
        rows = sum(self._data.rows_of(progress.epoch, step) for step in range(first, progress.step))
        self._rows_left -= rows
        was_cold = self._meter.is_cold
        self._meter.stop(rows, len(pending))
        speed = {"samples/s": round(self._meter.samples_per_second, 1), "step_time": self._meter.step_seconds}
        if not was_cold:
            speed["seconds_left"] = round(self._seconds_left(), 1)
        for step, (loss, *parts) in enumerate(losses.tolist(), first + 1):
            if not math.isfinite(loss):
                raise SharedError(
                    f"epoch {progress.epoch + 1} step {step}: the loss is {loss}; lower the learning rate"
                    " or look at the data"
                )
            published = {"total_loss": loss, **dict(zip(self.step.parts, parts, strict=True))}
            record = {"loss": loss, **published, **speed}
            log.write([progress.epoch + 1, step], record)
            self._tell(progress.epoch + 1, step, record)
        log.flush()
        progress.loss_sum += float(losses[:, 0].sum(dtype=np.float64))

    def _seconds_left(self) -> float:
        """To the end of the last epoch, at the speed of this one; patience may end the training before."""
        apart = [epoch["seconds"] - epoch["training_seconds"] for epoch in self.progress.epochs]  # validation
        validations = (self._data.epochs - self.progress.epoch) * (sum(apart) / len(apart) if apart else 0.0)
        return self._rows_left / self._meter.mean_samples_per_second + validations

    def _is_asked_to_stop(self) -> bool:
        """Whether to end the epoch here, which is then judged like any other; a collective operation."""
        asked = self._session.is_first and take_request(self._folder)
        if asked:
            print(f"asked to stop: epoch {self.progress.epoch + 1} ends with step {self.progress.step}", flush=True)
        (ranks,) = self._ranks.sum([tf.constant(float(asked))], name="asked_to_stop")
        return bool(ranks.numpy())

    def _tell(self, epoch: int, step: int, record: Mapping[str, float]) -> None:
        """Tells the train step of a logged step, for MLflow."""
        point = step_point(epoch, step, record, self.progress.steps_per_epoch, self._parameters.log_steps)
        if point and self._session.is_first:
            emit("measured", step=point[0], metrics=point[1])

    def _finish_epoch(self, earlier: float, began: float, sent_bytes: float, log: TrainingLog) -> None:
        progress = self.progress
        training_seconds = earlier + time.monotonic() - began
        train = self._metrics.result(self._totals())
        with self._averages.applied(self._session.model.trainable_variables):
            validation = self._session.score()
        seconds = earlier + time.monotonic() - began
        result: dict[str, Any] = {
            "epoch": progress.epoch + 1,
            "train_loss": progress.loss_sum / progress.step,
            **{f"train_{name}": value for name, value in train.items()},
            **validation,
            "seconds": seconds,
            "training_seconds": training_seconds,
            "samples_per_second": self._meter.mean_samples_per_second,
        }
        # JSON has no NaN: an undefined metric is null.
        result = {name: None if math.isnan(value) else value for name, value in result.items()}
        result = self._ranks.from_first(result)
        progress.epochs.append(result)
        progress.finished_steps += progress.step
        progress.epoch, progress.step, progress.loss_sum, progress.epoch_seconds = progress.epoch + 1, 0, 0.0, 0.0
        if self._parameters.export_epoch == BEST and self._session.best_epoch(progress.epochs) == progress.epoch:
            progress.best = progress.name
        self._metrics.reset()
        published = {"throughput": result["samples_per_second"], "time": training_seconds, **self._meter.latencies}
        published["sent_bytes"] = sent_bytes
        log.write([progress.epoch], {name: value for name, value in result.items() if name != "epoch"} | published)
        log.flush()
        self._save()
        if self._session.is_first:
            emit("epoch", epoch=progress.epoch, metrics={n: value for n, value in result.items() if n != "epoch"})
            left = 0.0 if self._is_over() else self._seconds_left()
            print(_epoch_line(result, self._data.epochs, self._session.task, left), flush=True)

    def _save(self) -> None:
        totals, checkpoints = self._totals(), self._checkpoints
        if checkpoints.layout:
            together(self._ranks, lambda: checkpoints.save_parts(self.progress))
        kept = together(self._ranks, lambda: checkpoints.save(self.progress, totals) if self._session.is_first else [])
        if checkpoints.layout:
            checkpoints.forget_parts(self._ranks.from_first(kept))

    def _totals(self) -> list[np.ndarray]:
        """The totals of this epoch's metrics, over all ranks."""
        return [total.numpy() for total in self._ranks.sum(self._metrics.totals(self._ranks), name="training_metrics")]


def _epoch_line(result: dict[str, Any], epochs: int, task: TaskDefinition, seconds_left: float) -> str:
    """The summary line of an epoch; seconds_left is 0 for the last one."""
    shown = {"train loss": result["train_loss"]} | {
        f"{split} {metric.label}": result[f"{split}_{metric.name}"]
        for metric in task.metrics
        for split in MEASURED
        if f"{split}_{metric.name}" in result
    }
    metrics = ", ".join(f"{name} {value:.4f}" for name, value in shown.items() if value is not None)
    left = f", at most {duration(seconds_left)} left" if seconds_left else ""
    return f"epoch {result['epoch']}/{epochs}: {metrics}, {result['samples_per_second']:,.0f} samples/s{left}"
