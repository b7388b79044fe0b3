"""Checkpoints: weights, optimizer state and the exact position in the data, written by rank 0, read by all.

TensorFlow writes the files of a checkpoint under temporary names and renames the list of checkpoints last, so an
interrupted save leaves the one before it in force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from components.errors import KfrecError
from components.models import Model
from components.models.optimizers.groups import Optimizers
from components.train.checkpoints.disk import disk_errors
from components.train.checkpoints.standing import Standing, StandingState
from components.train.checkpoints.state import state_of
from components.train.loop.averages import Averages
from components.train.loop.loss_scale import LossScale
from components.train.results import CHECKPOINT

KEEP = 3
_STATE_KEY = "state/.ATTRIBUTES/py_state"


class Checkpoints:
    """Saves and restores one training.

    Args:
        folder: where to save.
        model: a trackable object.
        optimizer: a trackable object whose slots exist.
        loss_scale: part of the training's state.
        averages: of the weights.
        saved: called with the prefix of each checkpoint that is complete.
    """

    def __init__(
        self,
        folder: Path,
        model: Model,
        optimizer: Optimizers,
        loss_scale: LossScale,
        averages: Averages,
        saved: Callable[[str], None],
    ) -> None:
        self._saved = saved
        self._state = StandingState()
        self._checkpoint = tf.train.Checkpoint(
            model=model, optimizer=optimizer, loss_scale=loss_scale, averages=averages, state=self._state
        )
        self._manager = tf.train.CheckpointManager(self._checkpoint, str(folder), max_to_keep=KEEP)

    def save(self, standing: Standing, totals: Sequence[np.ndarray]) -> None:
        """Writes the checkpoint ``ckpt-<steps done>``.

        Args:
            standing: where the training stands.
            totals: of this epoch's metrics, over all ranks.
        """
        self._state.standing, self._state.totals = standing, list(totals)
        with disk_errors(self._manager.directory):
            self._saved(self._manager.save(checkpoint_number=standing.global_step))

    def restore(self, path: str) -> tuple[Standing, list[np.ndarray]]:
        """Restores the training to the state of a checkpoint.

        Args:
            path: prefix of the checkpoint, from :func:`find_checkpoint`.

        Returns:
            Where the training stood, and the totals of its epoch's metrics.

        Raises:
            KfrecError: a file is damaged.
        """
        with _damage_told(path):
            self._checkpoint.restore(path).assert_existing_objects_matched()
        assert self._state.standing is not None
        return self._state.standing, self._state.totals


def find_checkpoint(path: str) -> str:
    """The newest checkpoint at ``path``: a folder of checkpoints, a model folder, or one checkpoint's prefix.

    Raises:
        KfrecError: there is none.
    """
    for folder in (Path(path), Path(path) / CHECKPOINT):
        with _damage_told(f"{folder}/checkpoint"):
            latest = tf.train.latest_checkpoint(str(folder)) if folder.is_dir() else None
        if latest is not None:
            return latest
    if Path(f"{path}.index").is_file():
        return path
    raise KfrecError(f"load_checkpoint_path {path}: no checkpoint here; give a folder with a training's checkpoints")


def read_standing(prefix: str) -> Standing:
    """Where the training of a checkpoint stood, without restoring it.

    Raises:
        KfrecError: the file is damaged, or not a checkpoint of this workflow.
    """
    state = StandingState()
    try:
        state.deserialize(tf.train.load_checkpoint(prefix).get_tensor(_STATE_KEY))
    except (tf.errors.OpError, ValueError, LookupError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise KfrecError(f"{prefix}: not a usable checkpoint of a kfrec training ({reason}); give another") from None
    assert state.standing is not None
    return state.standing


def restore_weights(prefix: str, standing: Standing, model: Model) -> None:
    """Restores the model alone, for inference: the averages of its weights if the training keeps them.

    Raises:
        KfrecError: a file is damaged.
    """
    with _damage_told(prefix):
        averages = Averages(model.trainable_variables, standing.average_decay)
        tf.train.Checkpoint(model=model, averages=averages).restore(prefix).expect_partial()
        averages.assign_to(model.trainable_variables)


@contextmanager
def _damage_told(prefix: str) -> Iterator[None]:
    """Turns TensorFlow's exceptions for a truncated or overwritten checkpoint into one line."""
    try:
        yield
    except (tf.errors.OpError, ValueError, IndexError, RuntimeError) as error:
        reason = str(error).splitlines()[0][:200]
        raise KfrecError(f"{prefix}: a damaged checkpoint ({reason}); give another, or start fresh") from None


def described(model: Model) -> list[list[Any]]:
    """(name, shape) of a model's variables, as a :class:`Standing` keeps them."""
    return [[variable.name, variable.shape.as_list()] for variable in state_of(model)]


def require_same_model(prefix: str, standing: Standing, model: Model) -> None:
    """Compares the model of a checkpoint with the one at hand.

    Raises:
        KfrecError: they differ; the line names the first difference.
    """
    remedy = "use the parameters and data of the training that wrote it"
    mine = described(model)
    for (theirs_name, theirs_shape), (name, shape) in zip(standing.variables, mine, strict=False):
        if theirs_shape != shape:
            raise KfrecError(
                f"{prefix}: its {theirs_name} has shape {theirs_shape}, this model's has {shape}; {remedy}"
            )
        if theirs_name != name:
            raise KfrecError(f"{prefix}: holds {theirs_name} where this model has {name}; {remedy}")
    if len(standing.variables) != len(mine):
        raise KfrecError(f"{prefix}: holds {len(standing.variables)} variables, this model has {len(mine)}; {remedy}")


def require_same_run(prefix: str, standing: Standing, mine: Standing, seed: int) -> None:
    """Checks the settings that must not change when a training resumes.

    Args:
        prefix: the checkpoint.
        standing: stored in it.
        mine: what this run would start with.
        seed: the seed asked for; -1 takes the checkpoint's.

    Raises:
        KfrecError: they differ.
    """
    compared = {
        "optimizer": (standing.optimizer, mine.optimizer),
        "average_decay": (standing.average_decay, mine.average_decay),
        "seed": (standing.seed, standing.seed if seed < 0 else seed),
    }
    if standing.step:
        # Within an epoch the position is only valid for the same batches.
        compared["global_batch_size"] = (standing.global_batch_size, mine.global_batch_size)
        compared["number of steps an epoch"] = (standing.steps_per_epoch, mine.steps_per_epoch)
    for name, (theirs, ours) in compared.items():
        if theirs != ours:
            raise KfrecError(f"{prefix}: was trained with {name} {theirs}, this run has {ours}; make them the same")
