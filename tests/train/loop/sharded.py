"""A small model over sharded tables, trained for a hundred steps on any number of ranks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from components.contract import LOGIT
from components.feature_spec import Feature
from components.models.layers.dense import Dense
from components.models.layers.embedding import FusedEmbedding
from components.models.layers.embedding_tables import EmbeddingTables
from components.models.layers.weights import Weights
from components.models.model import click_loss
from components.models.optimizers import make_optimizer
from components.models.optimizers.groups import OptimizerGroup, Optimizers
from components.models.tables.creation import PlacedTables, tables_made_by
from components.models.tables.placement import Placement, sharding_of
from components.tasks.binary.streaming import BinaryMetrics
from components.train.loop.loss_scale import LossScale
from components.train.loop.ranks import Ranks
from components.train.loop.training_step import Inputs, StepOptions, TrainingStep

FEATURES = (Feature("city", "int64", 40), Feature("kind", "int64", 2), Feature("tags", "int64", 11, 3))
WIDTHS = (8, 4, 8)
NEIGHBOURS = (30, 6)
NAMES = ("tables/city", "tables/kind", "tables/tags", "embedding_tables")
STEPS, BATCH = 100, 30


class Small(tf.Module):
    """A layer over separate tables of two widths and over tables that stand in one."""

    def __init__(self, seed: int, dtype: tf.DType = tf.float32) -> None:
        super().__init__()
        weights = Weights(seed)
        self.embed = EmbeddingTables(weights.scope("tables"), FEATURES, WIDTHS, dtype=dtype)
        self.fused = FusedEmbedding(weights.scope("fused"), NEIGHBOURS, 4, dtype)
        self.dense = Dense(weights.scope("dense"), sum(WIDTHS) + 8, 1)
        self.tables = self.embed.tables

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        neighbours = self.fused(self.fused.rows([features["one"], features["two"]], 0))
        joined = tf.concat([*self.embed(features), neighbours], -1)
        return {LOGIT: tf.cast(self.dense(tf.tanh(4.0 * joined))[:, 0], tf.float32)}

    loss_terms = click_loss


def batch(step: int) -> dict[str, np.ndarray]:
    """A global batch; every tenth has 3 samples, so that of four ranks one has none."""
    random = np.random.default_rng(step)
    rows = 3 if step % 10 == 9 else BATCH

    def ids(most: int, *shape: int) -> np.ndarray:
        # Ids beyond the table and skewed ones, as they are.
        return np.minimum(random.zipf(1.3, (rows, *shape)), most + 1).astype(np.int32)

    drawn = {"city": ids(40), "kind": ids(2), "tags": ids(11, 3) - 1, "one": ids(30), "two": ids(6)}
    return drawn | {"label": ((drawn["city"] + drawn["two"]) % 2).astype(np.int32)}


def share(values: np.ndarray, ranks: Ranks) -> np.ndarray:
    rows = len(values)
    return values[rows * ranks.rank // ranks.size : rows * (ranks.rank + 1) // ranks.size]


def built(ranks: Ranks, kinds: Mapping[str, str], dtype: tf.DType = tf.float32) -> Small:
    """The model with each table placed by its kind; one on a rank is on the last."""
    placements = {name: Placement(kinds.get(name, "replicated"), ranks.size - 1) for name in NAMES}
    with tables_made_by(PlacedTables(placements, ranks)):
        return Small(seed=3, dtype=dtype)


def training(
    model: Small, ranks: Ranks, optimizer: str, amp: bool = False, fp16_allreduce: bool = False
) -> tuple[TrainingStep, Optimizers, LossScale]:
    rate = {"sgd": 1.0, "adam": 0.01, "lazy_adam": 0.01}[optimizer]
    optimizers = Optimizers(
        [OptimizerGroup(make_optimizer(optimizer, rate), model.trainable_variables)], model.trainable_variables
    )
    signature = {name: tf.TensorSpec([None, *values.shape[1:]], tf.int32) for name, values in batch(0).items()}
    scale = LossScale(amp)
    return (
        TrainingStep(
            model,
            optimizers,
            ranks,
            BinaryMetrics(False),
            scale,
            Inputs(signature, {"label": tf.float32}),
            StepOptions(fp16_allreduce=fp16_allreduce),
        ),
        optimizers,
        scale,
    )


def train(
    ranks: Ranks,
    kinds: Mapping[str, str],
    optimizer: str,
    amp: bool = False,
    steps: int = STEPS,
    fp16_allreduce: bool = False,
) -> dict[str, np.ndarray]:
    """Trains; returns the losses, and of each variable the rank's part and which part that is."""
    model = built(ranks, kinds, tf.float16 if amp else tf.float32)
    step, _, _ = training(model, ranks, optimizer, amp, fp16_allreduce)
    step.choose_exchange({name: tf.constant(share(values, ranks)) for name, values in batch(0).items()})
    sent = ranks.sent_bytes()
    batches = (
        {name: tf.constant(share(values, ranks)) for name, values in batch(number).items()} for number in range(steps)
    )
    losses = [float(each[0]) for each in step.steps(batches)]
    found = {"losses": np.array(losses), "sent": np.array(ranks.sent_bytes() - sent)}
    for number, variable in enumerate(model.trainable_variables):
        found[str(number)] = variable.numpy()
        sharding = sharding_of(variable)
        if sharding is not None:
            part = sharding.mine
            found[f"{number}_part"] = np.array([part.first, part.step, part.begin, part.end])
    return found
