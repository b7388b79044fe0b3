"""The train step as a KFP component."""

from typing import NamedTuple

from kfp import dsl
from kfp.dsl import Dataset, Input, Model, Output

from components.steps.images import image


@dsl.component(base_image=image("train"), install_kfp_package=False)
def train(
    tfrecord: Input[Dataset],
    model: Output[Model],
    model_type: str,
    embedding_dim: int,
    stage_one_mlp_dims: str,
    stage_two_mlp_dims: str,
    aux_mlp_dims: str,
    long_seq_length: int,
    optimizer: str,
    lr: float,
    weight_decay: float,
    epochs: int,
    global_batch_size: int,
    dropout_rate: float,
    amp: bool,
    xla: bool,
    feature_spec: str,
    drop_remainder: bool,
    disable_cache: bool,
    repeat_count: int,
    prefetch_train_size: int,
    prefetch_test_size: int,
    prebatch_train_size: int,
    prebatch_test_size: int,
    load_checkpoint_path: str,
    warm_start_path: str,
    checkpoint_steps: int,
    log_steps: int,
    affinity: str,
    inter_op_parallelism: int,
    intra_op_parallelism: int,
    seed: int,
    workers: int,
    launcher: str,
    workers_per_pod: int,
    gpus_per_worker: int,
    pod_cpu: str,
    pod_memory: str,
    shared_memory: str,
    restarts: int,
    deadline: int,
    job_settings: str,
    experiment: str,
    run_id: str,
) -> NamedTuple("Trained", [("trained_model", str), ("metrics", dict)]):  # type: ignore[valid-type]
    """Train a model with Horovod and export it."""
    from components.steps.command import component

    return component("train", locals())
