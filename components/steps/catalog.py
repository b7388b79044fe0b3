"""The single definition of every step's parameters, inputs and outputs.

The command lines, the KFP components, the pipeline's inputs and the docs are generated from these classes. Names and
defaults of the training parameters are those of the public SIM documentation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from components.checks.thresholds import failing
from components.errors import KfrecError
from components.models.tables.placement import KINDS, REPLICATED
from components.models.tables.plan import AUTO as AUTOMATIC_TABLES
from components.models.tables.plan import read_named
from components.registry import dataset, model, task
from components.steps.batch_size import require_divisible
from components.steps.parameter import LARGEST_SEED, joined, param

# The source that stands for the built-in data set.
SYNTHETIC = "synthetic"
# Parameters that select a data set, model or task, whose parameters the step has in addition to its own.
DATASET = param("amazon_reviews", "Data set, which defines the raw files and their preprocessing")
MODEL = param("sim", "Model to train")
TASK = param("click", "Task that evaluates the model")
# The launcher that starts the workers of a training in a cluster.
LOCAL, MPIJOB = "local", "mpijob"
AUTO, GLOO, MPI = "auto", "gloo", "mpi"
# Parameters that several steps share.
SEED = param(12345, "Random seed for the data", at_least=0, at_most=LARGEST_SEED)
EXPERIMENT = param("kfrec", "MLflow experiment")
RUN_ID = param(
    "", "Pipeline run whose MLflow run this step joins; empty joins MLFLOW_RUN_ID or starts a run of its own"
)
EVALUATION_BATCH_SIZE = param(16_384, "Samples scored at a time", unit="samples", at_least=1)
DATA_VERSION = param(
    "", "Version of the data at the source, recorded with the model; a new value also invalidates KFP's cache"
)
REGISTERED_MODEL = param("kfrec-ctr", "Name in the MLflow model registry")
_PREBATCH = "0 writes one Example per sample, and reads the size from the data"
PREBATCH_TRAIN_SIZE = param(0, f"Samples in one training record; {_PREBATCH}", unit="samples", at_least=0)
PREBATCH_TEST_SIZE = param(0, f"Samples in one test record; {_PREBATCH}", unit="samples", at_least=0)

AFFINITIES = (
    "socket",
    "single",
    "single_unique",
    "socket_unique_interleaved",
    "socket_unique_continuous",
    "disabled",
)


@dataclass(frozen=True)
class FindParameters:
    """Which data to train on next, and when to skip training."""

    data_prefix: str = param(
        "",
        "Folder, gs://, s3:// or minio:// prefix with one folder per data version, each a complete set of raw files; "
        "the last name in natural order is the newest",
    )
    registered_model: str = REGISTERED_MODEL
    dataset: str = DATASET
    minimum_new_rows: int = param(
        1, "Rows, such as reviews, that a version must have in addition to the champion's data", unit="rows", at_least=0
    )
    force: bool = param(False, "Train on the newest version even without new rows")
    keep_vocabulary: bool = param(True, "Encode with the champion's vocabulary, up to out_of_vocabulary_limit")
    warm_start: bool = param(False, "Start training from the champion's weights")
    champion_uri: str = param("", "URI where later steps find the champion; empty is the folder itself")


@dataclass(frozen=True)
class DownloadParameters:
    """Where the raw files come from."""

    dataset: str = DATASET
    source: str = param(
        SYNTHETIC,
        "Location of the raw files: a folder, an http(s):// prefix, gs://, s3://, or the word synthetic",
    )
    files: str = param(
        "",
        "Names of the files to fetch, separated by commas; empty means every raw file at the source, or the data set's "
        "default names if the source cannot be listed",
    )
    cache_dir: str = param("", "Folder that keeps fetched files between runs; empty keeps none")
    attempts: int = param(
        5, "Consecutive tries without progress before the download of a file fails", unit="tries", at_least=1
    )
    timeout: float = param(60.0, "Time without data from the server before a try fails", unit="seconds", at_least=1)
    data_version: str = DATA_VERSION
    seed: int = SEED


@dataclass(frozen=True)
class PreprocessParameters:
    """How and where raw files become training samples."""

    dataset: str = DATASET
    workers: int = param(
        0,
        "Dask workers on this machine; 0 means one per core",
        unit="processes",
        at_least=0,
        pipeline_name="preprocess_workers",
    )
    scheduler: str = param("", "Address of a running Dask scheduler to use instead of local workers")
    dask_workers: int = param(
        0,
        "Workers of a Dask cluster that the Dask operator creates for this step, instead of local ones; 0 creates none",
        unit="pods",
        at_least=0,
    )
    dask_settings: str = param(
        "/etc/kfrec/dask/dask.yaml",
        "File with the settings of the Dask cluster; ignored if it does not exist",
    )
    malformed_limit: float = param(
        0.01, "Largest accepted share of malformed lines in a raw file", at_least=0, at_most=1
    )
    workflow: str = param(
        "",
        "Folder or URI of an earlier output, records or a model whose vocabulary to encode with; empty fits a new one",
    )
    out_of_vocabulary_limit: float = param(
        1.0, "Share of unknown values above which a new vocabulary is fitted", at_least=0, at_most=1
    )
    reference_profile: str = param(
        "",
        "Folder or URI of an earlier output, records or a model whose data the raw data are compared with; empty "
        "compares with none",
    )
    fewer_rows_limit: float = param(
        0.5, "Data check rows: share of the reference's rows that may be lacking", at_least=0, at_most=1
    )
    missing_limit: float = param(
        0.05, "Data check missing: rise of a column's share of missing values over the reference's", at_least=0,
        at_most=1,
    )  # fmt: skip
    duplicate_limit: float = param(
        0.1, "Data check duplicates: share of duplicate rows, or its rise over the reference's", at_least=0, at_most=1
    )
    new_values_limit: float = param(
        0.5, "Data check new: share of users, items and the like that the reference lacks", at_least=0, at_most=1
    )
    psi_limit: float = param(
        0.25, "Data check psi: population stability index of a column against the reference", at_least=0, at_most=100
    )
    older_limit: float = param(
        1.0, "Data check time: how much older than the reference's the newest row may be", unit="days", at_least=0
    )
    failing_checks: str = param(
        "",
        "Data checks that stop the run rather than warn, separated by commas: rows, missing, duplicates, new, psi, "
        "time; all is every one",
    )
    seed: int = SEED

    def check(self) -> None:
        """One place to run, and known checks."""
        failing(self.failing_checks)
        if self.scheduler and self.dask_workers:
            raise KfrecError(
                f"parameter dask_workers={self.dask_workers} asks for a new Dask cluster and "
                f"scheduler={self.scheduler} names one; give one of them"
            )


@dataclass(frozen=True)
class TfrecordParameters:
    """How samples become record files."""

    number_of_user_features: int = param(
        1, "Columns after the label that describe the user", unit="columns", at_least=0
    )
    prebatch_train_size: int = PREBATCH_TRAIN_SIZE
    prebatch_test_size: int = PREBATCH_TEST_SIZE
    samples_per_shard: int = param(262_144, "Largest number of samples in one file", unit="samples", at_least=1)
    workers: int = param(
        0,
        "Conversion threads; 0 means one per core",
        unit="threads",
        at_least=0,
        pipeline_name="tfrecord_workers",
    )
    seed: int = SEED


@dataclass(frozen=True)
class TrainParameters:
    """The loop of every training, with the names and defaults of the public SIM documentation."""

    model_type: str = MODEL
    task: str = param("", "Task whose metrics the training reports; empty is the model's own")
    epochs: int = param(3, "Passes over the training samples", unit="epochs", at_least=1)
    global_batch_size: int = param(131_072, "Samples per step over all workers", unit="samples", at_least=1)
    amp: bool = param(False, "Mixed precision with loss scaling")
    loss_scale: float = param(
        0.0, "Constant loss scale of mixed precision, such as 65536; 0 adjusts it and skips steps that overflow",
        at_least=0, at_most=2.0**32,
    )  # fmt: skip
    xla: bool = param(False, "Compile the training step with XLA")
    # input
    feature_spec: str = param("feature_spec.yaml", "Name of the feature specification in the data folder")
    drop_remainder: bool = param(False, "Drop the last, smaller batch of an epoch")
    disable_cache: bool = param(False, "Read records from disk in every epoch instead of keeping them in memory")
    repeat_count: int = param(0, "Times the training samples are repeated within an epoch; 0 is once", at_least=0)
    prefetch_train_size: int = param(-1, "Batches to prefetch in training; -1 chooses", unit="batches", at_least=-1)
    prefetch_test_size: int = param(-1, "Batches to prefetch in evaluation; -1 chooses", unit="batches", at_least=-1)
    prebatch_train_size: int = PREBATCH_TRAIN_SIZE
    prebatch_test_size: int = PREBATCH_TEST_SIZE
    num_parallel_calls: int = param(
        0,
        "Threads that decode training records in a process, of which at most 8 find work; 0 is one per core",
        unit="threads",
        at_least=0,
    )
    # embedding tables
    table_placement: str = param(
        AUTOMATIC_TABLES,
        "Where embedding tables are: whole on every rank, each on one rank, or divided among the ranks by columns or "
        "rows; auto divides the largest ones where a rank's memory does not hold all",
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
        "divided among ranks are written as a file each instead",
        is_quantity=True,
    )
    average_decay: float = param(
        0.0,
        "Decay per step of a moving average of the weights, which is evaluated and exported; 0 is the last step's "
        "weights, as published",
        at_least=0,
        at_most=0.9999,
    )
    # results
    load_checkpoint_path: str = param("", "Folder of checkpoints to resume from; empty starts fresh")
    warm_start_path: str = param(
        "", "Folder or URI of a model whose weights training starts from, matched by vocabulary; empty starts fresh"
    )
    checkpoint_steps: int = param(
        0, "Steps between checkpoints, in addition to one every epoch; 0 is none", unit="steps", at_least=0
    )
    log_steps: int = param(10, "Steps between two reads of the loss", unit="steps", at_least=1)
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
        """Placements are readable, and XLA compiles no exchange between ranks.

        Raises:
            KfrecError: they are not, or it would have to.
        """
        placements = {self.table_placement, *(kind for kind, _ in read_named(self.placed_tables).values())}
        if self.xla and placements - {AUTOMATIC_TABLES, REPLICATED}:
            raise KfrecError(
                f"parameter xla=True: XLA cannot compile the exchange of rows that table_placement="
                f"{self.table_placement} and placed_tables={self.placed_tables!r} ask for; turn xla off, or take "
                f"{REPLICATED}"
            )


@dataclass(frozen=True)
class WorkerParameters(TrainParameters):
    """One Horovod process: the arguments of the public training script, except the data folder."""

    mode: str = param("train", "What to do", choices=("train", "eval", "inference"))
    benchmark: bool = param(False, "Measure throughput and latency instead of training to the end")
    benchmark_warmup_steps: int = param(20, "Steps before a benchmark starts to measure", unit="steps", at_least=0)
    benchmark_steps: int = param(200, "Steps that a benchmark measures", unit="steps", at_least=1)
    results_dir: str = param("/tmp/sim", "Folder, or gs://, s3:// or minio:// URI, for the model and the logs")
    log_filename: str = param("log.json", "Name of the per-step log in results_dir")
    save_checkpoint_path: str = param("", "Folder for checkpoints; empty is the folder checkpoint in results_dir")
    stage_dir: str = param(
        "/tmp/kfrec-stage", "Folder for records and results while --dataset_dir and results_dir are in object storage"
    )
    train_dataset_size: int = param(
        11_796_480,
        "Accepted for the public command lines; the true size is read from the data",
        unit="samples",
        at_least=0,
    )

    def check(self) -> None:
        """Only what trained weights score is worth evaluating, and speed is measured in the other modes.

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

    workers: int = param(1, "Horovod processes that train together", unit="processes", at_least=1)
    launcher: str = param(
        LOCAL, "Where the processes run: on this machine, or in the pods of an MPIJob", choices=(LOCAL, MPIJOB)
    )
    transport: str = param(
        AUTO,
        "How the processes communicate: over Gloo, which horovodrun starts, or over MPI, which mpirun starts; auto is "
        "Gloo on this machine and MPI in an MPIJob, which supports no other",
        choices=(AUTO, GLOO, MPI),
    )
    # of an MPIJob; the cluster's settings for all jobs are in the file job_settings
    workers_per_pod: int = param(1, "Processes in one pod of an MPIJob", unit="processes", at_least=1)
    gpus_per_worker: int = param(1, "GPUs of a process of an MPIJob", unit="GPUs", at_least=0, at_most=1)
    pod_cpu: str = param("8", "CPU of a worker pod of an MPIJob, a Kubernetes quantity", is_quantity=True)
    pod_memory: str = param("32Gi", "Memory of a worker pod of an MPIJob, a Kubernetes quantity", is_quantity=True)
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
    experiment: str = EXPERIMENT
    run_id: str = RUN_ID

    def check(self) -> None:
        """The workers share every batch evenly, and an MPIJob's communicate over MPI.

        Raises:
            KfrecError: they do not.
        """
        require_divisible(self.global_batch_size, self.workers)
        if (self.launcher, self.transport) == (MPIJOB, GLOO):
            raise KfrecError("transport=gloo is not possible with launcher=mpijob; take transport=mpi or auto")


@dataclass(frozen=True)
class EvaluateParameters:
    """How the model is evaluated on the test split."""

    task: str = TASK
    evaluation_batch_size: int = EVALUATION_BATCH_SIZE
    experiment: str = EXPERIMENT
    run_id: str = RUN_ID


@dataclass(frozen=True)
class RegisterParameters:
    """When a model becomes the champion."""

    registered_model: str = REGISTERED_MODEL
    task: str = TASK
    promotion_margin: float = param(
        0.001, "A challenger must beat the champion's primary metric by this much", at_least=0
    )
    bootstrap_samples: int = param(1000, "Resamples of the confidence interval", unit="resamples", at_least=100)
    confidence: float = param(0.95, "Level of the confidence interval", at_least=0.5, at_most=0.9999)
    evaluation_batch_size: int = EVALUATION_BATCH_SIZE
    data_version: str = DATA_VERSION
    occasion: str = param("", "Reason for the training, recorded with the model")
    experiment: str = EXPERIMENT
    run_id: str = RUN_ID
    seed: int = SEED


@dataclass(frozen=True)
class PredictParameters:
    """Which rows are scored, and with which model."""

    model_version: str = param(
        "kfrec-ctr@champion",
        "Model: name@alias or name/version of a registered one, or the folder or URI of an output of the train step",
    )
    rows: str = param(
        "",
        "Folder, gs://, s3:// or minio:// prefix whose *.parquet, *.csv and *.jsonl files are scored, or one such file",
    )
    beside: bool = param(True, "Also write the scores beside the rows, such as day.scores.csv beside day.csv")
    prediction_batch_size: int = param(4096, "Rows scored at a time", unit="rows", at_least=1)


class Brought(NamedTuple):
    """What a data set, model or task brings to a step.

    Attributes:
        parameters: dataclasses of its own parameters.
        defaults: other defaults of the step's parameters, by name.
    """

    parameters: tuple[type, ...]
    defaults: Mapping[str, Any] = MappingProxyType({})


def _brought_by_model(name: str, judge: str) -> Brought:
    """The model's parameters, and those that the task has for the train step; an empty one is the model's own."""
    definition = model(name)
    return Brought((definition.parameters, task(judge or definition.task).training), definition.defaults)


def worker_parameters(model_type: str, task: str = "") -> type:
    """The parameters of a Horovod process that trains ``model_type``, with the metrics of ``task``.

    Raises:
        KfrecError: there is no such model or task.
    """
    return _joined_by({"model_type": model_type, "task": task}, _brought_by_model, WorkerParameters)


def _joined_by(chosen: Mapping[str, str], brought: Callable[..., Brought], own: type) -> type:
    try:
        parameters, defaults = brought(*chosen.values())
        return joined(*parameters, own, defaults=tuple(defaults.items()))
    except KfrecError as error:
        first = next(iter(chosen))
        told = ", ".join(f"{parameter}={name!r}" for parameter, name in chosen.items() if name or parameter == first)
        raise KfrecError(f"parameter {told}: {error}") from None


@dataclass(frozen=True)
class Step:
    """A step of the workflow.

    Attributes:
        name: folder under components/ and name of the KFP task.
        summary: one sentence for --help and the KFP UI.
        own: its dataclass of parameters.
        inputs: folders it reads, name to description.
        outputs: folders it writes, name to description.
        rows: names of the returned counts that add up to its output rows; empty is the first one.
        results: its other return values, name to type; outputs of its KFP component.
        shown: outputs of its KFP component that the UI draws, name to KFP's type; its module ``visualise`` fills them.
        chosen_by: the parameters that select a data set, model or task with its own parameters, such as model_type.
        brought: takes their values and returns these parameters.
        varying: patterns of output files that hold times, places, run ids, versions or names of a graph, which differ
            between two runs that are otherwise equal; a star matches slashes, too.
    """

    name: str
    summary: str
    own: type
    inputs: dict[str, str]
    outputs: dict[str, str]
    rows: tuple[str, ...]
    results: dict[str, type] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)
    chosen_by: tuple[str, ...] = ()
    brought: Callable[..., Brought] | None = None
    varying: tuple[str, ...] = ()

    def parameters(self, chosen: Mapping[str, Any] | None = None) -> type:
        """The dataclass of all its parameters.

        Args:
            chosen: values by name; only the one of ``chosen_by`` is used.

        Raises:
            KfrecError: nothing has that name.
        """
        if self.brought is None:
            return self.own
        defaults = {field.name: field.default for field in dataclasses.fields(self.own)}
        names = {name: str((chosen or {}).get(name, defaults[name])) for name in self.chosen_by}
        return _joined_by(names, self.brought, self.own)

    def of(self, **values: Any) -> Any:
        """Its parameters with these values, which are not checked."""
        return self.parameters(values)(**values)


RAW = "the data set's raw files"
PARQUET = "samples in parquet, cardinalities, and the fitted workflow's vocabulary"
TFRECORD = "record files with feature_spec.yaml"
MODEL = "SavedModel, checkpoint, training log"
EVALUATION = "metrics.json, predictions, curves and report.html"
REGISTRATION = "registration.json: version, alias and reason, and decision.html"
CHAMPION = "the champion's model, or a note that no champion exists"
PREDICTIONS = "the files of rows with the scores in further columns, and prediction.json"

STEPS: dict[str, Step] = {
    step.name: step
    for step in (
        Step("find", "Find the newest data and decide whether to train on it.",
             FindParameters, {}, {"champion": CHAMPION}, ("versions",),
             {"proceed": bool, "occasion": str, "source": str, "data_version": str, "workflow": str,
              "warm_start_path": str, "reference_profile": str}),
        Step("download", "Fetch raw files, or generate synthetic ones.",
             DownloadParameters, {}, {"raw": RAW}, (),
             {}, {}, ("dataset",), lambda name: Brought((dataset(name).generation,))),
        Step("preprocess", "Convert raw files to training samples with NVTabular.",
             PreprocessParameters, {"raw": RAW}, {"parquet": PARQUET}, ("train", "test"),
             {}, {}, ("dataset",), lambda name: Brought((dataset(name).sampling,))),
        Step("tfrecord", "Convert samples in parquet to shuffled TFRecord files.",
             TfrecordParameters, {"parquet": PARQUET}, {"tfrecord": TFRECORD}, ("train", "test")),
        Step("train", "Train a model with Horovod and export it.",
             LaunchParameters, {"tfrecord": TFRECORD}, {"model": MODEL}, ("train",),
             {"trained_model": str, "metrics": dict}, {}, ("model_type", "task"), _brought_by_model,
             ("training.json", "parameters.json", "log.json", "worker.log", "checkpoint/*", "saved_model/*.pb")),
        Step("evaluate", "Score the test split and report metrics.",
             EvaluateParameters, {"tfrecord": TFRECORD, "model": MODEL}, {"evaluation": EVALUATION}, ("test",),
             {}, {"metrics": "Metrics", "classification_metrics": "ClassificationMetrics", "report": "HTML"},
             ("task",), lambda name: Brought((task(name).evaluation,)), ("report.html",)),
        Step("register", "Register the model and promote it if it beats the champion.",
             RegisterParameters, {"tfrecord": TFRECORD, "model": MODEL, "evaluation": EVALUATION},
             {"registration": REGISTRATION}, ("models",),
             {}, {"decision": "HTML"}, ("task",), lambda name: Brought((task(name).decision,)),
             ("registration.json", "decision.html")),
        Step("predict", "Score files of raw rows with a registered model.",
             PredictParameters, {}, {"predictions": PREDICTIONS}, ("rows",)),
    )
}  # fmt: skip
