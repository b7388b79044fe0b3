"""Parameters of a training: of its loop, of a worker, and of the step that launches the workers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from components.errors import KfrecError
from components.models.tables.placement import KINDS, REPLICATED
from components.models.tables.plan import AUTO as AUTOMATIC_TABLES
from components.models.tables.plan import read_named
from components.parameters import (
    EXPERIMENT,
    MODEL,
    PREBATCH_TEST_SIZE,
    PREBATCH_TRAIN_SIZE,
    REFITTING,
    RUN_ID,
    param,
)

# The launcher that starts the workers of a training in a cluster.
LOCAL, MPIJOB = "local", "mpijob"
AUTO, GLOO, MPI = "auto", "gloo", "mpi"
# The epoch to export.
BEST, LAST = "best", "last"
# Where an admitted row starts.
FRESH, OF_CATEGORY = "fresh", "category"
# What a refit trains with in place of a run's own values: all samples train, and the last epoch is exported.
OF_A_REFIT: dict[str, Any] = {"validation_share": 0.0, "patience": 0, "export_epoch": LAST}
AFFINITIES = (
    "socket",
    "single",
    "single_unique",
    "socket_unique_interleaved",
    "socket_unique_continuous",
    "disabled",
)


@dataclass(frozen=True)
class TrainParameters:
    """The loop of every training, with the names and defaults of the public SIM documentation."""

    model_type: str = MODEL
    task: str = param("", "Task whose metrics the training reports; empty is the model's own")
    epochs: int = param(3, "Passes over the training samples", unit="epochs", at_least=1, in_form=True)
    steps_per_epoch: int = param(
        0,
        "Steps of an epoch, after which the model is validated and saved; 0 is a pass, or repeat_count passes",
        unit="steps",
        at_least=0,
    )
    max_steps: int = param(0, "Steps after which the training ends, before its last epoch; 0 is no limit",
                           unit="steps", at_least=0)  # fmt: skip
    global_batch_size: int = param(1024, "Samples per step over all workers", unit="samples", at_least=1, in_form=True)
    micro_batch_size: int = param(
        0,
        "Samples of a worker whose gradients are computed at a time and added up, which bounds memory; 0 is all of a "
        "step",
        unit="samples",
        at_least=0,
    )
    clip_norm: float = param(
        0.0, "Largest norm of all gradients together, to which larger ones are scaled down; 0 is no limit", at_least=0
    )
    amp: bool = param(False, "Mixed precision with loss scaling", in_form=True)
    loss_scale: float = param(
        0.0, "Constant loss scale of mixed precision, such as 65536; 0 adjusts it and skips steps that overflow",
        at_least=0, at_most=2.0**32,
    )  # fmt: skip
    xla: bool = param(False, "Compile the training step with XLA")
    fp16_allreduce: bool = param(
        False, "Sum dense gradients over the ranks in half precision, which halves the bytes they send; needs amp"
    )
    # input
    feature_spec: str = param("feature_spec.yaml", "Name of the feature specification in the data folder")
    drop_remainder: bool = param(False, "Drop the last, smaller batch of an epoch")
    disable_cache: bool = param(False, "Read records from disk in every epoch instead of keeping them in memory")
    repeat_count: int = param(0, "Times the training samples are repeated within an epoch; 0 is once", at_least=0)
    prebatch_train_size: int = PREBATCH_TRAIN_SIZE
    prebatch_test_size: int = PREBATCH_TEST_SIZE
    num_parallel_calls: int = param(
        0,
        "Threads that decode training records in a process, of which at most 8 find work; 0 is one per core",
        unit="threads",
        at_least=0,
    )
    # validation
    validation_share: float = param(
        0.1,
        "Share of the training samples, the last ones of the records, that judge the epochs in place of training; 0 "
        "judges none; data with a validation split ignore it",
        at_least=0,
        at_most=0.9,
    )
    export_epoch: str = param(
        BEST,
        "Epoch whose weights are exported: the one with the best primary metric on the validation samples, or the last",
        choices=(BEST, LAST),
    )
    patience: int = param(
        0,
        "Epochs without a better validation metric after which the training stops; 0 trains all epochs",
        unit="epochs",
        at_least=0,
    )
    # embedding tables
    table_placement: str = param(
        AUTOMATIC_TABLES,
        "Where embedding tables are: whole on every rank, each on one rank, or sharded over the ranks by columns or "
        "rows; auto shards the largest ones where a rank's memory does not hold all",
        choices=(AUTOMATIC_TABLES, *KINDS),
    )
    placed_tables: str = param(
        "",
        "Placements of single tables, such as cat_3=rows,cat_9=auto@host; the addition @host keeps a table in the "
        "host's memory beside a GPU",
    )
    table_memory: str = param(
        "0",
        "Memory of a rank for embedding tables and their optimizer's state, a Kubernetes quantity; 0 is three quarters "
        "of the host's free memory, and no limit on a GPU",
        is_quantity=True,
    )
    largest_export: str = param(
        "16Gi",
        "Largest embedding tables that are exported within a SavedModel, a Kubernetes quantity; larger ones that are "
        "sharded over ranks are written as a file each instead",
        is_quantity=True,
    )
    average_decay: float = param(
        0.0,
        "Decay per step of a moving average of the weights, which is validated and exported; 0 is the last step's "
        "weights, as published",
        at_least=0,
        at_most=0.9999,
    )
    # results
    load_checkpoint_path: str = param("", "Folder of checkpoints to resume from; empty starts fresh")
    warm_start_path: str = param(
        "", "Folder or URI of a model whose weights training starts from, matched by vocabulary; empty starts fresh"
    )
    continue_path: str = param(
        "",
        "Folder or URI of another training's checkpoints, or of its model, whose weights and optimizer moments this "
        "training continues with a schedule of its own; needs the same model, optimizers and ids; empty starts fresh",
    )
    admitted_rows: str = param(
        FRESH,
        "Where continue_path meets items whose row stood for another one: fresh starts the row from the initializer's "
        "weights, category from the mean of the other items of its category; the optimizer's moments start afresh",
        choices=(FRESH, OF_CATEGORY),
    )
    checkpoint_steps: int = param(
        0, "Steps between checkpoints, in addition to one every epoch; 0 is none", unit="steps", at_least=0
    )
    log_steps: int = param(10, "Steps between two reads of the loss", unit="steps", at_least=1)
    stall_seconds: int = param(
        1800,
        "Longest time of a step of several ranks, including the wait for its input; a longer one means that a rank "
        "hangs, and ends the training; 0 is no limit",
        unit="seconds",
        at_least=0,
    )
    # run
    affinity: str = param("socket_unique_interleaved", "How ranks are bound to cores", choices=AFFINITIES)
    inter_op_parallelism: int = param(0, "TensorFlow threads between operations; 0 chooses", unit="threads", at_least=0)
    intra_op_parallelism: int = param(
        0, "TensorFlow threads within an operation; 0 chooses", unit="threads", at_least=0
    )
    seed: int = param(
        -1,
        "Seed of weights, dropout and batch order; -1 draws one and records it",
        at_least=-1,
        pipeline_name="train_seed",
    )

    def check(self) -> None:
        """Requires valid placements, no collectives under XLA, a loss scale for half precision, and one start.

        Raises:
            KfrecError: one of these does not hold.
        """
        if self.continue_path and self.warm_start_path:
            raise KfrecError(
                f"parameters continue_path={self.continue_path} and warm_start_path={self.warm_start_path}: a training "
                "starts from one of them; give continue_path for the moments too, warm_start_path for the weights alone"
            )
        if self.fp16_allreduce and not self.amp:
            raise KfrecError(
                "parameter fp16_allreduce=True: without the loss scale of amp, small gradients become 0 in half "
                "precision; turn amp on, or fp16_allreduce off"
            )
        placements = {self.table_placement, *(kind for kind, _ in read_named(self.placed_tables).values())}
        if self.xla and placements - {AUTOMATIC_TABLES, REPLICATED}:
            raise KfrecError(
                f"parameter xla=True: XLA cannot compile the exchange of rows that table_placement="
                f"{self.table_placement} and placed_tables={self.placed_tables!r} ask for; turn xla off, or use "
                f"{REPLICATED}"
            )


@dataclass(frozen=True)
class WorkerParameters(TrainParameters):
    """One Horovod process: the arguments of the public training script, except the data folder."""

    mode: str = param("train", "What to do", choices=("train", "eval", "inference"))
    benchmark: bool = param(False, "Measure throughput and latency instead of training to the end")
    benchmark_warmup_steps: int = param(20, "Steps before a benchmark starts to measure", unit="steps", at_least=0)
    benchmark_steps: int = param(200, "Steps that a benchmark measures", unit="steps", at_least=1)
    results_dir: str = param("/tmp/kfrec", "Folder, or gs://, s3:// or minio:// URI, for the model and the logs")
    log_filename: str = param("log.json", "Name of the per-step log in results_dir")
    save_checkpoint_path: str = param("", "Folder for checkpoints; empty is the folder checkpoint in results_dir")
    stage_dir: str = param(
        "",
        "Folder for records and results while --dataset_dir and results_dir are in object storage; empty is one of the "
        "user's own in the folder for temporary files",
    )
    prefetch_train_size: int = param(-1, "Batches to prefetch in training; -1 chooses", unit="batches", at_least=-1)
    prefetch_test_size: int = param(
        -1, "Batches to prefetch in validation and evaluation; -1 chooses", unit="batches", at_least=-1
    )
    train_dataset_size: int = param(
        11_796_480,
        "Accepted for the public command lines; the true size is read from the data",
        unit="samples",
        at_least=0,
    )

    def check(self) -> None:
        """Allows mode=eval only with trained weights and without a benchmark.

        Raises:
            KfrecError: mode=eval without weights, or with a benchmark.
        """
        if self.mode == "eval" and not self.load_checkpoint_path:
            raise KfrecError("parameter mode=eval needs load_checkpoint_path: a trained model's folder or checkpoint")
        if self.mode == "eval" and self.benchmark:
            raise KfrecError("parameter benchmark=true measures mode=train or mode=inference; mode=eval scores once")


@dataclass(frozen=True)
class LaunchParameters(TrainParameters):
    """The train step: the workers' parameters, their number and where they run."""

    workers: int = param(1, "Horovod processes that train together", unit="processes", at_least=1, in_form=True)
    launcher: str = param(
        LOCAL, "Where the processes run: on this machine, or in the pods of an MPIJob", choices=(LOCAL, MPIJOB)
    )
    transport: str = param(
        AUTO,
        "How the processes communicate: over Gloo, or over MPI, for which mpirun starts them; auto is Gloo on this "
        "machine and MPI in an MPIJob, which supports no other",
        choices=(AUTO, GLOO, MPI),
    )
    # MPIJob; the cluster's settings for all jobs are in the file job_settings
    workers_per_pod: int = param(1, "Processes in one pod of an MPIJob", unit="processes", at_least=1, in_form=True)
    gpus_per_worker: int = param(1, "GPUs of a process of an MPIJob", unit="GPUs", at_least=0, at_most=1, in_form=True)
    pod_cpu: str = param("8", "CPU of a worker pod of an MPIJob, a Kubernetes quantity", is_quantity=True, in_form=True)
    pod_memory: str = param(
        "32Gi", "Memory of a worker pod of an MPIJob, a Kubernetes quantity", is_quantity=True, in_form=True
    )
    shared_memory: str = param(
        "8Gi", "Shared memory of a worker pod of an MPIJob, part of its memory", is_quantity=True
    )
    restarts: int = param(
        2,
        "Times an MPIJob that failed or lost a worker is recreated, to resume from the newest checkpoint",
        unit="times",
        at_least=0,
    )
    deadline: int = param(
        86_400,
        "Longest time the workers of an MPIJob may run, restarts included; time in a queue does not count",
        unit="seconds",
        at_least=1,
    )
    job_settings: str = param(
        "/etc/kfrec/job/mpijob.yaml",
        "File with the cluster's settings for MPIJobs; ignored if it does not exist",
    )
    tfrecord_uri: str = param("", "URI where the workers of an MPIJob read the records")
    model_uri: str = param("", "URI where the workers of an MPIJob write the model")
    registered_model: str = param(
        "", "Name in the MLflow model registry whose champion must be of the same task; empty is any", in_form=True
    )
    refitting: bool = REFITTING
    experiment: str = EXPERIMENT
    run_id: str = RUN_ID

    def check(self) -> None:
        """Requires a batch divisible by the workers, and for an MPIJob MPI and workers that fill its pods.

        Raises:
            KfrecError: one of these does not hold.
        """
        require_divisible(self.global_batch_size, self.workers)
        if (self.launcher, self.transport) == (MPIJOB, GLOO):
            raise KfrecError("transport=gloo is not possible with launcher=mpijob; use transport=mpi or auto")
        if self.launcher == MPIJOB:
            require_whole_pods(self.workers, self.workers_per_pod)


# A training may resume with other values of these: how long it goes on, where it runs, how it reads its input, and what
# it exports and reports.
MAY_CHANGE = (
    *({each.name for each in fields(LaunchParameters)} - {each.name for each in fields(TrainParameters)}),
    "epochs",
    "max_steps",
    "patience",
    "export_epoch",
    "disable_cache",
    "num_parallel_calls",
    "table_placement",
    "placed_tables",
    "table_memory",
    "largest_export",
    "checkpoint_steps",
    "log_steps",
    "stall_seconds",
    "affinity",
    "inter_op_parallelism",
    "intra_op_parallelism",
)


def require_divisible(global_batch_size: int, size: int) -> None:
    """Rejects a global batch size that is not divisible by the number of ranks.

    Raises:
        KfrecError: with the nearest valid sizes.
    """
    if global_batch_size % size:
        lower, higher = global_batch_size // size * size, -(-global_batch_size // size) * size
        nearest = f"{lower} or {higher}" if lower else str(higher)
        raise KfrecError(
            f"global_batch_size {global_batch_size} cannot be divided evenly over {size} workers; use {nearest}"
        )


def require_whole_pods(workers: int, workers_per_pod: int) -> None:
    """Rejects a number of workers that does not fill whole pods.

    Raises:
        KfrecError: with the nearest valid numbers.
    """
    pods, rest = divmod(workers, workers_per_pod)
    if rest:
        nearest = f"{pods * workers_per_pod} or {(pods + 1) * workers_per_pod}" if pods else str(workers_per_pod)
        raise KfrecError(
            f"workers={workers} do not fill pods of workers_per_pod={workers_per_pod}; use {nearest} workers"
        )
