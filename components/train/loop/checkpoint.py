"""Checkpoints: weights, optimizer state and the exact position in the data, written by rank 0, read by all.

Each rank writes its shards of sharded tables to separate files first. TensorFlow writes a checkpoint under temporary
names, and the list of checkpoints is replaced last, so an interrupted save leaves the previous checkpoint valid. The
newest checkpoints are kept, and those of the best epochs, which they name in their progress: each can be resumed if
newer ones are damaged.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from components.errors import KfrecError
from components.models import Model
from components.models.optimizers.groups import Optimizers
from components.models.optimizers.slots import STEPS
from components.models.tables.placement import whole_shape
from components.progress import warn
from components.train.loop.averages import AVERAGE, Averages
from components.train.loop.listing import complete_names, read_list, write_list
from components.train.loop.loss_scale import LossScale
from components.train.loop.progress import FORMAT, ProgressState, TrainingProgress
from components.train.loop.shards import layout_of, read_parts, remove_parts, require_readable_parts, write_parts
from components.train.loop.state import VARIABLES, disk_errors, named_state_of
from components.train.loop.turnover import Rows, starting_afresh
from components.train.results import CHECKPOINT

KEEP = 3
# Parts of a training's state, the first words of its variables' names in a checkpoint.
MODEL, OPTIMIZER, AVERAGES = "model", "optimizer", "averages"
_STATE_KEY = "state/.ATTRIBUTES/py_state"


class Checkpoints:
    """Saves and restores one training.

    Args:
        rank: of this process; the first one saves and restores replicated state.
        saved: called with the prefix of each checkpoint and, if it is kept, that of the best epoch's, on the first rank
            when the checkpoint is complete, on the others when their shards are written.

    Attributes:
        layout: the shards of sharded variables, for a ``TrainingProgress``.
    """

    def __init__(
        self,
        folder: Path,
        model: Model,
        optimizer: Optimizers,
        loss_scale: LossScale,
        averages: Averages,
        rank: int,
        saved: Callable[[str, str], None],
    ) -> None:
        self._folder, self._saved, self._rank = folder, saved, rank
        self._state = ProgressState()
        parts = {
            MODEL: named_state_of(model),
            OPTIMIZER: optimizer.state,
            "loss_scale": named_state_of(loss_scale),
            AVERAGES: named_state_of(averages),
        }
        self._variables = {f"{part}/{name}": v for part, state in parts.items() for name, v in state.items()}
        self.layout = layout_of(self._variables)
        self._checkpoint = _replicated(self._variables, (), self._state)
        self._names = read_list(folder) if rank == 0 else []
        self._best_of: dict[str, str] = {}

    def save_parts(self, progress: TrainingProgress) -> None:
        """Writes this rank's shards, on every rank before ``save``."""
        prefix = self.prefix(progress.name)
        if write_parts(prefix, self._variables, self._rank) and self._rank:
            self._saved(prefix, self.prefix(progress.best))

    def prefix(self, name: str) -> str:
        """The prefix of the checkpoint of this name; empty for no name."""
        return str(self._folder / name) if name else ""

    def save(self, progress: TrainingProgress, totals: Sequence[np.ndarray]) -> list[str]:
        """Writes the checkpoint ``ckpt-<steps done>`` and removes all but the newest ones and their best epochs'.

        Args:
            totals: of this epoch's metrics, over all ranks.

        Returns:
            The names of the retained checkpoints.
        """
        self._state.progress, self._state.totals = progress, list(totals)
        earlier = [name for name in self._names if name != progress.name]
        newest = [*earlier, progress.name][-KEEP:]
        self._best_of[progress.name] = progress.best
        best = {self._best_of.get(name) for name in newest}
        names = [name for name in earlier if name in best and name not in newest] + newest
        self._folder.mkdir(parents=True, exist_ok=True)
        with disk_errors(self._folder):
            self._checkpoint.write(self.prefix(progress.name))
        write_list(self._folder, names)
        for name in earlier:
            if name not in names:
                _remove(self._folder, name)
        self._names = names
        self._saved(self.prefix(progress.name), self.prefix(progress.best))
        return names

    def forget_parts(self, kept: Sequence[str]) -> None:
        """Removes the shards of all checkpoints but these, on every rank after ``save``."""
        remove_parts(self._folder, kept)

    def carry_over(self, prefix: str) -> None:
        """Copies a checkpoint of an earlier folder to this one, on one rank of each node.

        Raises:
            KfrecError: it is not there.
        """
        if not Path(f"{prefix}.index").is_file():
            raise KfrecError(
                f"{prefix}: missing, though it is the checkpoint of the best epoch; give load_checkpoint_path a folder "
                "with it, or set export_epoch to last"
            )
        if Path(prefix).parent.resolve() == self._folder.resolve():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        for file in sorted(Path(prefix).parent.glob(f"{Path(prefix).name}.*")):
            partial = self._folder / f".{file.name}.{self._rank}.partial"
            shutil.copyfile(file, partial)
            partial.replace(self._folder / file.name)
        self._names = [*self._names, Path(prefix).name]

    def restore(self, prefix: str, progress: TrainingProgress) -> list[np.ndarray]:
        """Restores the training: this rank's shards, and on the first rank the rest.

        Args:
            prefix: of the checkpoint, from ``find_checkpoint``.

        Returns:
            The totals of its epoch's metrics, on the first rank.

        Raises:
            KfrecError: a file is missing or damaged.
        """
        _restore(prefix, progress, self._variables, self._rank == 0, self._state)
        self._best_of[Path(prefix).name] = progress.best
        return self._state.totals

    def continue_from(self, prefix: str, progress: TrainingProgress, afresh: Rows) -> None:
        """As ``restore``, the weights and the optimizers' moments alone, of another training of the same model.

        Step counters of the optimizers, loss scale and averages keep their values.

        Args:
            afresh: rows of tables that are left as they are.
        """
        with starting_afresh(afresh, self._continued, MODEL):
            _restore(prefix, progress, self._continued, self._rank == 0)

    @property
    def _continued(self) -> dict[str, tf.Variable]:
        """The weights and the optimizers' state, except for the counters that their schedules follow."""
        counters = re.compile(rf"{OPTIMIZER}/\d+/{STEPS}")
        return {
            name: variable
            for name, variable in self._variables.items()
            if name.startswith((f"{MODEL}/", f"{OPTIMIZER}/")) and not counters.fullmatch(name)
        }


def _remove(folder: Path, name: str) -> None:
    """Removes a checkpoint, except for its shards."""
    for file in (folder / f"{name}.index", *folder.glob(f"{name}.data-*")):
        file.unlink(missing_ok=True)


def find_scored(path: str) -> str:
    """The checkpoint at ``path`` whose weights the training exported: the best epoch's if it is kept, else the newest.

    The prefix of one checkpoint is that checkpoint.

    Raises:
        KfrecError: there is no checkpoint.
    """
    prefix = find_checkpoint(path)
    if prefix == path:
        return prefix
    best = read_progress(prefix).best
    return str(Path(prefix).with_name(best)) if best else prefix


def find_checkpoint(path: str, parameter: str = "load_checkpoint_path") -> str:
    """The newest readable checkpoint at ``path``: a folder of checkpoints, a model folder, or one checkpoint's prefix.

    A line tells of newer ones that are damaged.

    Args:
        parameter: that names it, for messages.

    Raises:
        KfrecError: there is no checkpoint, or none is readable.
    """
    for folder in (Path(path) / CHECKPOINT, Path(path)):
        if prefixes := [str(folder / name) for name in complete_names(folder)]:
            return _newest_readable(prefixes)
    if Path(f"{path}.index").is_file():
        return path
    raise KfrecError(f"{parameter} {path}: no checkpoint here; give a folder with a training's checkpoints")


def _newest_readable(prefixes: Sequence[str]) -> str:
    """The first of these checkpoints, the newest first, of which every value can be read.

    Raises:
        KfrecError: what is wrong with the newest, if all are damaged.
    """
    skipped: list[KfrecError] = []
    for prefix in prefixes:
        try:
            _require_readable(prefix)
        except KfrecError as error:
            skipped.append(error)
            continue
        if skipped:
            reasons = "; ".join(str(error).partition("; ")[0] for error in skipped)
            warn("train", "a damaged checkpoint", f"{reasons}: skipped, {Path(prefix).name} is taken instead")
        return prefix
    raise skipped[0]


def _require_readable(prefix: str) -> None:
    """Reads a checkpoint, which TensorFlow compares with its checksums.

    Raises:
        KfrecError: it is damaged, or not a checkpoint of this workflow.
    """
    progress = read_progress(prefix)
    with _explaining_damage(prefix):
        reader = tf.train.load_checkpoint(prefix)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    require_readable_parts(prefix, progress.tables)


def read_progress(prefix: str) -> TrainingProgress:
    """The training progress stored in a checkpoint, without restoring it.

    Raises:
        KfrecError: the file is damaged, or not a checkpoint of this workflow.
    """
    state = ProgressState()
    try:
        state.deserialize(tf.train.load_checkpoint(prefix).get_tensor(_STATE_KEY))
    except (tf.errors.OpError, ValueError, LookupError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise KfrecError(f"{prefix}: not a usable checkpoint of a kfrec training ({reason}); give another") from None
    if state.format != FORMAT:
        raise KfrecError(
            f"{prefix}: was written by an earlier kfrec, which did not save weights by name; train again, or use the "
            "kfrec that wrote it"
        )
    assert state.progress is not None
    return state.progress


def restore_weights(prefix: str, progress: TrainingProgress, model: Model, is_first: bool) -> None:
    """Restores the model alone, with averaged weights if the training kept them; as ``Checkpoints.restore``."""
    _restore(prefix, progress, _scored(model, progress), is_first)


def _restore(
    prefix: str,
    progress: TrainingProgress,
    variables: Mapping[str, tf.Variable],
    is_first: bool,
    state: ProgressState | None = None,
) -> None:
    """Reads the replicated variables if ``is_first``, and this rank's shards of those that are sharded here or there.

    Raises:
        KfrecError: a file is missing or damaged.
    """
    with _explaining_damage(prefix):
        if is_first:
            replicated = _replicated(variables, progress.tables, state)
            replicated.read(prefix).assert_existing_objects_matched().expect_partial()
        read_parts(prefix, progress.tables, variables)


def _replicated(
    variables: Mapping[str, tf.Variable], sharded: Collection[str], state: ProgressState | None
) -> tf.train.Checkpoint:
    """A checkpoint of the variables but those that are sharded, here or by these names, and of the progress."""
    left_out = {*layout_of(variables), *sharded}
    replicated = {path: variable for path, variable in variables.items() if path not in left_out}
    return tf.train.Checkpoint(**{VARIABLES: replicated}, **({"state": state} if state is not None else {}))


def _scored(model: Model, progress: TrainingProgress) -> dict[str, tf.Variable]:
    """The model's variables by their names in a checkpoint: those of the averages, if there are any."""
    averaged = {variable.ref() for variable in model.trainable_variables} if progress.average_decay else set()
    return {
        f"{AVERAGES}/{name}/{AVERAGE}" if variable.ref() in averaged else f"{MODEL}/{name}": variable
        for name, variable in named_state_of(model).items()
    }


@contextmanager
def _explaining_damage(prefix: str) -> Iterator[None]:
    """Turns TensorFlow's exceptions for a truncated or overwritten checkpoint into one line."""
    try:
        yield
    except (tf.errors.OpError, ValueError, IndexError, RuntimeError) as error:
        reason = str(error).splitlines()[0][:200]
        raise KfrecError(f"{prefix}: a damaged checkpoint ({reason}); give another, or start fresh") from None


def described(model: Model) -> list[list[Any]]:
    """(name, shape) of a model's variables, as stored in a ``TrainingProgress``."""
    return [[name, whole_shape(variable)] for name, variable in named_state_of(model).items()]


def require_same_model(prefix: str, progress: TrainingProgress, model: Model) -> None:
    """Compares a checkpoint's variables with the model's.

    Raises:
        KfrecError: they differ; the message names the first difference.
    """
    remedy = "use the parameters and data of the training that wrote it"
    theirs, mine = dict(progress.variables), dict(described(model))
    for name in dict.fromkeys((*theirs, *mine)):
        if name not in mine:
            raise KfrecError(f"{prefix}: holds {name}, which this model has not; {remedy}")
        if name not in theirs:
            raise KfrecError(f"{prefix}: does not hold this model's {name}; {remedy}")
        if theirs[name] != mine[name]:
            raise KfrecError(f"{prefix}: its {name} has shape {theirs[name]}, this model's has {mine[name]}; {remedy}")
