"""A model as exported by the train step: a SavedModel, its feature specification, and its vocabulary."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from threading import Barrier, Thread
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from components.artifacts import Artifact, open_input
from components.artifacts.folder import require_listed
from components.artifacts.notes import read_notes
from components.checks import PROFILE
from components.errors import KfrecError
from components.feature_spec import Channel, FeatureSpec, load_feature_spec
from components.feature_spec.item_columns import ItemColumns, read_item_columns
from components.feature_spec.side_tables import SIDE_TABLES
from components.feature_spec.spec import FILENAME
from components.feature_spec.vocabulary import VOCABULARY
from components.scoring.operations import require_harmless
from components.scoring.signature import Output, damaged, read_signature

SAVED_MODEL = "saved_model"
# Written by the train step instead if sharded tables are too large for a SavedModel.
TABLES = "tables"
SIGNATURE = "serving_default"
# Name of the signature that explains the outputs; only models that can have it.
EXPLAIN = "explain"
# Name of the signature that scores many targets of one user; only models that share a user's computations have it.
TARGETS = "targets"
# Names of the signatures whose vectors' dot product orders targets, and of their output; only models that retrieve.
USER_VECTORS, TARGET_VECTORS, VECTOR = "user_vectors", "target_vectors", "vector"
# Name of the signature of what the columns of an item add to its vector, and of its input.
COLUMN_VECTORS, COLUMNS = "column_vectors", "item_columns"
# Name of the signature that scores all items of a user, instead of those; its output is VECTOR as well.
ITEM_SCORES = "item_scores"
# Name of the signature that scores items of a user by their columns, beside that.
NEW_SCORES = "new_scores"
# The files of a model's folder used for scoring and uploaded to the registry; all must be listed in the manifest.
MODEL_FILES = (SAVED_MODEL, FILENAME, VOCABULARY, SIDE_TABLES, "parameters.json", "training.json", PROFILE)
_RETRIEVAL = (USER_VECTORS, TARGET_VECTORS, COLUMN_VECTORS, ITEM_SCORES, NEW_SCORES)
_PART, _PART_OF_A_GPU = 2048, 1 << 16
T = TypeVar("T")


def import_tensorflow() -> None:
    """Imports TensorFlow, unless it has been, without what it says on standard error meanwhile.

    Since 2.21 it writes its notes on the processor before its log is set up, whatever ``TF_CPP_MIN_LOG_LEVEL`` says. An
    import that fails raises its error as ever.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if "tensorflow" in sys.modules:
        return
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        import tensorflow  # noqa: F401
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


class NotFinite(KfrecError):
    """A model returns scores that are not finite numbers."""


@dataclass(frozen=True)
class ExportedModel:
    """A loaded model.

    Attributes:
        parameters: of its training; empty if unknown.
        explain: the function of the signature ``explain``; None if there is none, or the model is not loaded.
        targets: the function of the signature ``targets``, likewise.
        retrieval: the functions of USER_VECTORS and TARGET_VECTORS, and of COLUMN_VECTORS, or of ITEM_SCORES, and of
            NEW_SCORES, by name, likewise; empty if it does not retrieve.
    """

    folder: Path
    spec: FeatureSpec
    parameters: Mapping[str, Any]
    inputs: tuple[str, ...]
    outputs: Mapping[str, Output]
    signature: Callable[..., Mapping[str, Any]]
    explain: Callable[..., Mapping[str, Any]] | None = None
    targets: Callable[..., Mapping[str, Any]] | None = None
    retrieval: Mapping[str, Callable[..., Mapping[str, Any]]] = field(default_factory=dict)

    @property
    def item_columns(self) -> ItemColumns | None:
        """The columns of items by which it scores those that it does not know; None without such a signature."""
        reads = COLUMN_VECTORS in self.retrieval or NEW_SCORES in self.retrieval
        return read_item_columns(self.spec.folder) if reads else None

    def begin(self, batch: Mapping[str, np.ndarray]) -> Callable[[], dict[str, np.ndarray]]:
        """Starts scoring samples: without a GPU in chunks, one per core at a time.

        An idle core continues with the chunks of the next batch.

        Args:
            batch: feature name to ids, [n] or [n, length]; other features are ignored.

        Returns:
            A function that returns the outputs by name, [n, ...] each. It raises NotFinite if a number is not finite,
            and KfrecError if the first axis of an output is not the samples.
        """
        rows, part, shared = len(batch[self.inputs[0]]), self._part_size, self._of_one_user(batch)
        parts = (slice(first, first + part) for first in range(0, rows, part))
        return self.begin_parts(parts, lambda rows: {name: shared.get(name, batch[name][rows]) for name in self.inputs})

    def _of_one_user(self, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What ``targets`` computes once: a row of the features that are not the target's, if all rows are alike."""
        if self.targets is None:
            return {}
        targets = self.spec.channels.get(Channel.TARGET, ())
        shared = {name: batch[name][:1] for name in self.inputs if name not in targets}
        return shared if all((batch[name] == row).all() for name, row in shared.items()) else {}

    @property
    def _part_size(self) -> int:
        """Samples of a chunk: no more than its training differentiated at a time, which fitted into memory."""
        trained = self.parameters.get("micro_batch_size") or self.parameters.get("global_batch_size")
        return min(part_size(), trained) if isinstance(trained, int) and trained > 0 else part_size()

    def begin_parts(
        self, parts: Iterable[T], read: Callable[[T], Mapping[str, np.ndarray]]
    ) -> Callable[[], dict[str, np.ndarray]]:
        """As ``begin``, for samples that need not exist in memory all at once.

        Args:
            parts: what to score, in chunks of about ``part_size`` samples.
            read: returns the samples of a chunk; called on the thread that scores it. If the model has ``targets``, a
                chunk may have one row of each feature that is not the target's.
        """

        def score(part: T) -> dict[str, np.ndarray]:
            batch = read(part)
            sizes = {len(batch[name]) for name in self.inputs}
            signature = self.targets if len(sizes) > 1 and self.targets is not None else self.signature
            returned = signature(**self._tensors(batch))
            scores = {name: np.asarray(returned[name]) for name in self.outputs}
            for name, values in scores.items():
                if values.shape[:1] != (max(sizes),):
                    raise KfrecError(
                        f"{self.folder / SAVED_MODEL}: output {name} has shape {list(values.shape)} for {max(sizes)} "
                        "samples; correct the outputs of the model, whose first axis is the batch"
                    )
            return scores

        scored = _threads().map(score, parts)

        def outputs() -> dict[str, np.ndarray]:
            scores = joined(list(scored))
            for name, values in scores.items():
                if values.dtype.kind == "f" and not np.isfinite(values).all():
                    raise NotFinite(
                        f"{self.folder / SAVED_MODEL}: output {name} has values that are not numbers (nan); "
                        "train again with a lower lr"
                    )
            return scores

        return outputs

    def nothing(self) -> dict[str, np.ndarray]:
        """The outputs of no samples."""
        return {name: np.zeros((0, *output.shape), output.dtype) for name, output in self.outputs.items()}

    def explained(self, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What the model says about its outputs, see ``components.models.model.Explaining``; it must have it.

        Args:
            batch: as for ``begin``, at most a few thousand samples.
        """
        assert self.explain is not None
        return {name: np.asarray(values) for name, values in self.explain(**self._tensors(batch)).items()}

    def vectors_of(
        self, name: str, batch: Mapping[str, np.ndarray], items: Mapping[str, np.ndarray] | None = None
    ) -> np.ndarray:
        """The vectors of users or of targets, float32 ``[n, width]``, or users' scores of items, ``[n, rows]``; the
        model must have them.

        Args:
            name: USER_VECTORS, TARGET_VECTORS, COLUMN_VECTORS, ITEM_SCORES or NEW_SCORES.
            batch: feature name to ids, ``[n]`` or ``[n, length]``: all features of the one or of the other; or COLUMNS
                to float32 ``[n, width]``.
            items: of NEW_SCORES, the target's features and COLUMNS of the items to score, ``[rows]`` and
                ``[rows, width]``.

        Raises:
            NotFinite: a vector is not finite.
        """
        rows, part, compute = len(next(iter(batch.values()))), self._part_size, self.retrieval[name]

        def computed(first: int) -> np.ndarray:
            read = {name: values[first : first + part] for name, values in batch.items()}
            return np.asarray(compute(**self._tensors({**read, **(items or {})}))[VECTOR])

        vectors = np.concatenate(list(_threads().map(computed, range(0, max(rows, 1), part))))
        if not np.isfinite(vectors).all():
            raise NotFinite(f"{self.folder / SAVED_MODEL}: a vector is not a number (nan); train again with a lower lr")
        return vectors

    def _tensors(self, batch: Mapping[str, np.ndarray]) -> dict[str, Any]:
        import tensorflow as tf

        names = [name for name in (*self.inputs, COLUMNS) if name in batch]
        known = self.spec.features
        kinds = {name: tf.float32 if name not in known or known[name].is_float else tf.int64 for name in names}
        return {name: tf.constant(batch[name], kind) for name, kind in kinds.items()}


def joined(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Outputs of chunks of samples as those of all samples; of at least one chunk."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def as_column(values: np.ndarray) -> pa.Array:
    """An output as a column of a table: values ``[n]``, or lists of fixed size ``[n, ...]``."""
    column = pa.array(values.reshape(-1))
    for size in reversed(values.shape[1:]):
        column = pa.FixedSizeListArray.from_arrays(column, size)
    return column


def load_model(folder: Path | str) -> ExportedModel:
    """Loads a model from a folder of the train step.

    Raises:
        KfrecError: the folder has no model, one with another signature, or files that its manifest does not list.
    """
    described = describe_model(folder)
    import_tensorflow()
    import tensorflow as tf

    if not tf.config.get_visible_devices("GPU"):
        # Chunks run in parallel instead; TensorFlow's thread settings are fixed once a caller has used it.
        with suppress(RuntimeError):
            tf.config.threading.set_intra_op_parallelism_threads(1)
    # Only the loaded object keeps the signature's variables alive.
    loaded = load_saved_model(described.folder / SAVED_MODEL)

    def call(**features: Any) -> Mapping[str, Any]:
        return loaded.signatures[SIGNATURE](**features)

    targets = loaded.signatures.get(TARGETS)
    if targets is not None and not set(described.outputs) <= set(targets.structured_outputs):
        targets = None
    return replace(
        described,
        signature=call,
        explain=loaded.signatures.get(EXPLAIN),
        targets=targets,
        retrieval={name: loaded.signatures[name] for name in _RETRIEVAL if name in loaded.signatures},
    )


def describe_model(folder: Path | str) -> ExportedModel:
    """As ``load_model``, but without TensorFlow: the model is loaded only when its signature is called.

    Raises:
        KfrecError: as of ``load_model``; damaged weights are not detected.
    """
    folder = Path(folder)
    require_listed(folder, MODEL_FILES)
    spec = load_feature_spec(folder)
    saved = folder / SAVED_MODEL
    if (folder / TABLES).is_dir() and not saved.is_dir():
        raise KfrecError(
            f"{folder}: its tables were too large for a SavedModel and are files in {TABLES}; to score it here, train "
            "with a larger largest_export where a rank has that memory"
        )
    if not (saved / "saved_model.pb").is_file():
        raise KfrecError(f"{saved}: no SavedModel here; run the train step again")
    described = read_signature(saved)
    parameters = read_notes(folder / "parameters.json")
    loaded = cache(lambda: load_model(folder))
    return ExportedModel(
        folder,
        spec,
        parameters,
        described.inputs,
        described.outputs,
        lambda **features: loaded().signature(**features),
    )


def load_saved_model(saved: Path) -> Any:
    """Loads a SavedModel.

    Raises:
        KfrecError: it is damaged, and TensorFlow's exception depends on the damage; or it has operations that models
            need not have.
    """
    require_harmless(saved)
    import tensorflow as tf

    logger = logging.getLogger("absl")
    level = logger.level
    # TensorFlow warns that the export left out the gradients, which serving never asks for.
    logger.setLevel(logging.ERROR)
    try:
        return tf.saved_model.load(str(saved))
    except (OSError, ValueError, RuntimeError, IndexError, KeyError, tf.errors.OpError) as error:
        raise damaged(saved, error) from error
    finally:
        logger.setLevel(level)


def part_size() -> int:
    """Samples that a thread scores at a time, so that intermediate results stay in a core's cache; a GPU has no such
    limit, but one of memory."""
    import tensorflow as tf

    return _PART_OF_A_GPU if tf.config.get_visible_devices("GPU") else _PART


def cores() -> int:
    """Cores of this process, each of which scores a chunk at a time."""
    return len(os.sched_getaffinity(0))


@cache
def _threads() -> ThreadPoolExecutor:
    """A pool with one started thread per core.

    Another thread starts them: a signal's exception, raised in the main thread, could leave a running but unregistered
    worker, and the process would hang at exit.
    """
    count = cores()
    pool, started = ThreadPoolExecutor(count, "score"), Barrier(count)

    def start() -> None:
        try:
            for _ in range(count):
                pool.submit(started.wait)
        except RuntimeError:  # the process ends
            started.abort()

    starter = Thread(target=start, name="start-score")
    starter.start()
    starter.join()
    return pool


def open_test_split(tfrecord: Path) -> Artifact:
    """Opens records and stages their test split and its description.

    Raises:
        KfrecError: see ``components.artifacts.open_input``.
    """
    return open_input(tfrecord, steps=("tfrecord",), reads=(FILENAME, PROFILE, VOCABULARY, SIDE_TABLES, "test"))


def open_trained(model: Path) -> Artifact:
    """Opens a model and stages everything but the checkpoint and the log.

    Raises:
        KfrecError: see ``components.artifacts.open_input``.
    """
    return open_input(model, steps=("train",), reads=MODEL_FILES)
