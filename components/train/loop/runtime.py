"""Set-up of a worker before the first operation: quiet logs, cores, threads, devices and the seed."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.steps.catalog import WorkerParameters
    from components.train.loop.ranks import Ranks


def quiet_tensorflow() -> None:
    """Silences TensorFlow's start-up notices; call it before importing TensorFlow."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def configure(parameters: WorkerParameters, ranks: Ranks) -> None:
    """Binds this rank to its cores and its GPU, and sets threads."""
    import tensorflow as tf

    from components.train.loop.affinity import bind

    bind(parameters.affinity, ranks.local_rank, ranks.local_size)
    tf.config.threading.set_inter_op_parallelism_threads(parameters.inter_op_parallelism)
    tf.config.threading.set_intra_op_parallelism_threads(parameters.intra_op_parallelism)
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        mine = gpus[ranks.local_rank % len(gpus)]
        tf.config.set_visible_devices(mine, "GPU")
        tf.config.experimental.set_memory_growth(mine, True)


def drawn_seed(seed: int) -> int:
    """The seed itself, or a random one for -1."""
    return secrets.randbelow(1 << 31) if seed < 0 else seed
