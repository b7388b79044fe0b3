"""The models of tables, DLRM and Wide & Deep, over sharded tables, on any number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from components import registry
from components.feature_spec import FeatureSpec
from components.feature_spec.spec import FILENAME
from components.models import Model
from components.models.optimizers.groups import Optimizers
from components.scoring.model import TABLES
from components.steps.catalog import worker_parameters
from components.tasks.binary.streaming import BinaryMetrics
from components.train.export import write_tables
from components.train.loop.averages import Averages
from components.train.loop.checkpoint import Checkpoints, described, find_checkpoint, read_progress
from components.train.loop.loss_scale import LossScale
from components.train.loop.progress import TrainingProgress
from components.train.loop.ranks import Ranks
from components.train.loop.tables import build_placed
from components.train.loop.training_step import Inputs, TrainingStep
from components.train.loop.transfer import Shared, Transfer
from components.train.loop.warm_start import warm_start
from tests.train.displays import CHANNELS, FEATURES, MOST_TOPICS, displays
from tests.train.loop.sharded import share

SPEC = FeatureSpec({feature.name: feature for feature in FEATURES}, {}, CHANNELS)
LABEL, GROUP = "clicked", "display_id"
STEPS, LATER = 20, 5
# Every kind of placement; a table of Wide & Deep's linear part has one column, which goes by rows or to a rank.
MODELS: dict[str, dict[str, Any]] = {
    "dlrm": dict(
        embedding_dim=8, bottom_mlp_dims=(8, 8), top_mlp_dims=(16, 1), optimizer="adam", learning_rate=0.02,
        warmup_steps=5, decay_steps=0, table_placement="columns", placed_tables="platform=rank",
        batch_normalization=True, embedding_l2=0.01,
    ),
    "dcn_v2": dict(
        embedding_dim=8, cross_rank=4, deep_hidden_units=(16, 8), learning_rate=0.02, table_placement="columns",
        placed_tables="platform=rank", batch_normalization=True, embedding_l2=0.01,
    ),
    "wide_and_deep": dict(
        epochs=1, embedding_dim=8, deep_hidden_units=(16, 8), deep_dropout=0.0, deep_learning_rate=0.01,
        deep_warmup_epochs=1, table_placement="rows", placed_tables="platform=rank", deep_optimizer="adam",
        batch_normalization=True, embedding_l2=0.01,
    ),
}  # fmt: skip


def options(settings: Mapping[str, Any]) -> list[str]:
    """The settings as options of a worker."""
    words = {name: value if isinstance(value, tuple) else (value,) for name, value in settings.items()}
    return [f"--{name}={','.join(map(str, values))}" for name, values in words.items()]


def batch(step: int) -> dict[str, np.ndarray]:
    """A global batch of about 40 samples."""
    table = displays(10, 1, seed=step)
    topics = np.zeros((len(table), MOST_TOPICS), np.int32)
    for row, listed in zip(topics, table["topic_id_list"].to_pylist(), strict=True):
        row[: len(listed)] = listed
    columns = {name: table[name].to_numpy() for name in SPEC.features if name not in (GROUP, "topic_id_list")}
    floats = {name: values for name, values in columns.items() if values.dtype == np.float32}
    return {**{name: values.astype(np.int32) for name, values in columns.items()}, **floats, "topic_id_list": topics}


@dataclass
class Trained:
    """A training so far.

    Args:
        ranks: who takes part.
        model_type: of MODELS.
        folder: of its checkpoints.
        way: in which it takes its batches.
    """

    ranks: Ranks
    model_type: str
    folder: Path
    way: Callable[[Mapping[str, tf.TensorSpec]], Transfer] = Shared
    steps: int = 0

    def __post_init__(self) -> None:
        definition = registry.model(self.model_type)
        settings = {**MODELS[self.model_type], "seed": 3, "model_type": self.model_type}
        if self.ranks.size == 1:
            del settings["table_placement"], settings["placed_tables"]
        parameters = worker_parameters(self.model_type)(**settings)
        self.model: Model = build_placed(definition, parameters, SPEC, self.ranks, 3, None)
        variables = self.model.trainable_variables
        self.optimizers = Optimizers(definition.optimizers(parameters, self.model, STEPS), variables)
        scale, averages = LossScale(False), Averages(variables, 0.0)
        signature = {name: tf.TensorSpec([None, *values.shape[1:]], values.dtype) for name, values in batch(0).items()}
        self.handed = self.way(signature)
        self.step = TrainingStep(
            self.model, self.optimizers, self.ranks, BinaryMetrics(False), scale,
            Inputs(self.handed.signature, {LABEL: tf.float32}, unpack=self.handed.features),
        )  # fmt: skip
        self.checkpoints = Checkpoints(
            self.folder, self.model, self.optimizers, scale, averages, self.ranks.rank, lambda prefix, best: None
        )

    def take(self, steps: int) -> np.ndarray:
        """Takes so many steps and returns their losses."""
        losses = []
        for _ in range(steps):
            mine = {name: share(values, self.ranks) for name, values in batch(self.steps).items()}
            losses.append(float(self.step.run(self.handed.sent(mine))))
            self.steps += 1
        return np.array(losses)

    def save(self) -> None:
        """Saves a checkpoint, as the training loop does."""
        progress = TrainingProgress(
            3, 40, STEPS, self.optimizers.description, described(self.model), self.checkpoints.layout, step=self.steps
        )
        self.checkpoints.save_parts(progress)
        self.ranks.gather(0)
        if self.ranks.rank == 0:
            self.checkpoints.save(progress, [])

    def restore(self) -> None:
        """Restores the newest checkpoint of its folder."""
        prefix = find_checkpoint(str(self.folder))
        progress = read_progress(prefix)
        self.checkpoints.restore(prefix, progress)
        self.steps = progress.step


def main(ranks: Ranks, folder: Path) -> None:
    """Trains each model, saves its losses and a checkpoint, and starts another one from its weights."""
    for model_type in MODELS:
        trained = Trained(ranks, model_type, folder / model_type)
        losses = trained.take(STEPS)
        trained.save()
        np.savez(folder / f"{model_type}-{ranks.rank}.npz", losses=losses)
        earlier = folder / f"{model_type}-earlier"
        write_tables(trained.model, earlier / TABLES, ranks)
        if ranks.rank == 0:
            (earlier / FILENAME).write_text(SPEC.to_yaml())
        ranks.gather(0)
        model = Trained(ranks, model_type, folder / f"{model_type}-later").model
        warm_start("earlier", earlier, model, SPEC)
        np.savez(folder / f"{model_type}-warm-{ranks.rank}.npz", *(variable.numpy() for variable in model.variables))
