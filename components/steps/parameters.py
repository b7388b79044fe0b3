"""Parameters of the steps but training: from raw files to records, and of those that evaluate and use a model."""

from __future__ import annotations

from dataclasses import dataclass

from components.errors import KfrecError
from components.parameters import (
    DATA_VERSION,
    DATASET,
    EVALUATION_BATCH_SIZE,
    EXPERIMENT,
    MODEL,
    PREBATCH_TEST_SIZE,
    PREBATCH_TRAIN_SIZE,
    REFITTING,
    REGISTERED_MODEL,
    REPLAY_SHARE,
    RUN_ID,
    SEED,
    SYNTHETIC,
    TASK,
    param,
)

LARGEST_DOWNLOAD = param(
    1000.0, "Largest total size of the fetched files; a larger source is refused", unit="GB", at_least=0
)


@dataclass(frozen=True)
class FindParameters:
    """Which data to train on next, and when to skip training."""

    data_prefix: str = param(
        "",
        "Folder, gs://, s3:// or minio:// prefix with one folder per data version, each a complete set of raw files; "
        "the last name in natural order is the newest",
        in_form=True,
    )
    registered_model: str = REGISTERED_MODEL
    task: str = TASK
    model_type: str = MODEL
    dataset: str = DATASET
    minimum_new_rows: int = param(
        1,
        "Rows, such as events, that a version must have and the champion's data lack",
        unit="rows",
        at_least=0,
        in_form=True,
    )
    data_until: str = param(
        "",
        "Newest data version to look at, such as 2026-11-25; later ones count as not there yet; empty is the newest",
        in_form=True,
    )
    force: bool = param(False, "Train on the newest version even without new rows", in_form=True)
    keep_vocabulary: bool = param(True, "Encode with the champion's vocabulary, up to out_of_vocabulary_limit")
    warm_start: bool = param(False, "Start training from the champion's weights")
    full_every: int = param(
        0,
        "Nights from one training on all versions, each of which holds new rows alone, to the next; the trainings in "
        "between continue the champion's on the versions since its own. 0: each version is complete, and the newest "
        "one trains",
        unit="nights",
        at_least=0,
    )
    replay_share: float = REPLAY_SHARE
    history_versions: int = param(
        30,
        "Where full_every continues the champion on users' histories: versions before the new ones that are read for "
        "these histories, and of whose events some train once more",
        unit="versions",
        at_least=1,
    )
    champion_uri: str = param("", "URI where later steps find the champion; empty is the folder itself")


@dataclass(frozen=True)
class DownloadParameters:
    """Where the raw files come from."""

    dataset: str = DATASET
    source: str = param(
        SYNTHETIC,
        "Location of the raw files: a folder, an http(s):// prefix, gs://, s3://, or the word synthetic",
        in_form=True,
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
    longest_wait: float = param(
        600.0, "Longest wait between two tries, even if the server asks for a longer one", unit="seconds", at_least=0
    )
    largest_download: float = LARGEST_DOWNLOAD
    data_version: str = DATA_VERSION
    seed: int = SEED


@dataclass(frozen=True)
class TfrecordParameters:
    """How samples become record files."""

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
class EvaluateParameters:
    """How the model is evaluated on the test split."""

    task: str = TASK
    evaluation_batch_size: int = EVALUATION_BATCH_SIZE
    experiment: str = EXPERIMENT
    run_id: str = RUN_ID


# Who decides that a model which beats the champion replaces it: the gate, or a person after it.
AUTOMATIC, REQUIRED = "automatic", "required"


@dataclass(frozen=True)
class RegisterParameters:
    """When a model becomes the champion."""

    registered_model: str = REGISTERED_MODEL
    task: str = TASK
    model_type: str = MODEL
    promotion_margin: float = param(
        0.001, "A challenger must beat the champion's primary metric by this much, in its unit", at_least=0
    )
    promote_after_days: int = param(
        0,
        "Days of served rows on which a model that beats the champion on the test split must beat it, too, before the "
        "feedback step makes it the champion; 0 promotes at once",
        unit="days",
        at_least=0,
    )
    bootstrap_samples: int = param(1000, "Resamples of the confidence interval", unit="resamples", at_least=100)
    confidence: float = param(0.95, "Level of the confidence interval", at_least=0.5, at_most=0.9999)
    evaluation_batch_size: int = EVALUATION_BATCH_SIZE
    approval: str = param(
        AUTOMATIC,
        "Whether a model that beats the champion replaces it, or is left awaiting approval by kfrec promote",
        choices=(AUTOMATIC, REQUIRED),
    )
    refit: bool = param(
        False,
        "Train a model that has become the champion again, on the validation and the test samples too, for the epochs "
        "that validation chose, and publish that model in its place",
    )
    refitting: bool = REFITTING
    data_version: str = DATA_VERSION
    occasion: str = param("", "Reason for the training, recorded with the model")
    experiment: str = EXPERIMENT
    run_id: str = RUN_ID

    def check(self) -> None:
        """Lets either a person or the served rows decide after the gate.

        Raises:
            KfrecError: both are to.
        """
        if self.approval == REQUIRED and self.promote_after_days:
            raise KfrecError(
                f"parameters approval={REQUIRED} and promote_after_days={self.promote_after_days}: the one leaves the "
                "promotion to a person, the other to served rows; give one of them"
            )


MODEL_VERSION = param(
    f"{REGISTERED_MODEL.default}@champion",
    "Model: name@alias or name/version of a registered one, or the folder or URI of an output of the train step",
    in_form=True,
)


LOG = param(
    "",
    "Folder, gs://, s3:// or minio:// prefix that receives what is answered as served rows, which outcomes are joined "
    "with later; empty logs nothing",
    pipeline_name="served_log",
)


@dataclass(frozen=True)
class PredictParameters:
    """Which rows are scored, and with which model."""

    model_version: str = MODEL_VERSION
    rows: str = param(
        "",
        "Folder, gs://, s3:// or minio:// prefix whose *.parquet, *.csv and *.jsonl files are scored, or one such file",
        in_form=True,
    )
    log: str = LOG
    beside: bool = param(True, "Also write the scores beside the rows, such as day.scores.csv beside day.csv")
    prediction_batch_size: int = param(4096, "Rows scored at a time", unit="rows", at_least=1)
    largest_download: float = LARGEST_DOWNLOAD


@dataclass(frozen=True)
class RecommendParameters:
    """What lists hold, and where they go; options of ``kfrec recommend`` of the same names."""

    model_version: str = MODEL_VERSION
    deliver_to: str = param(
        "",
        "File, or its URI in object storage, whose suffix gives the format, such as gs://bucket/lists.parquet, or the "
        "SQLAlchemy URL of a database; empty keeps the lists in the step's output alone",
        in_form=True,
    )
    table: str = param("lists", "Table of the database")
    log: str = LOG
    candidates: str = param(
        "",
        "File or URI with the items to choose from, and their boost, available_until and category if it has these "
        "columns; empty is all items",
        is_file=True,
        in_form=True,
    )
    exclude: str = param("", "File or URI with users and items that are not for them", is_file=True)
    never_again: str = param(
        "", "Kinds of events whose items are not listed again, separated by commas, such as purchase"
    )
    top: int = param(20, "Largest number of items of a user", unit="items", at_least=1)
    per_category: int = param(0, "Most items of a category in a list; 0 is any number", unit="items", at_least=0)
    keep_seen: str = param(
        "as_evaluated",
        "Whether items of the history are listed, too",
        choices=("as_evaluated", "true", "false"),
    )


@dataclass(frozen=True)
class FeedbackParameters:
    """Which served rows are joined with which outcomes, and when a row has waited long enough."""

    model_version: str = MODEL_VERSION
    served: str = param(
        "", "Folder or URI of served rows, which kfrec serve --log and batch predictions write", in_form=True
    )
    outcomes: str = param(
        "",
        "File, folder or prefix of outcomes: parquet, CSV or JSON lines with the columns request_id, or user, item and "
        "time; optional are label, row, item and time",
        in_form=True,
    )
    attribution_window: float = param(
        24.0, "Longest time from a served row to an outcome that counts for it", unit="hours", at_least=0, in_form=True
    )
    label_wait: float = param(
        6.0,
        "Time after the attribution window in which outcomes may still arrive; then a row without one has the label 0",
        unit="hours",
        at_least=0,
        in_form=True,
    )
    served_days: int = param(8, "Newest days of served rows that are read", unit="days", at_least=1, in_form=True)
    roll_back: bool = param(
        False,
        "Make the champion before the champion again, if it is better on the same served rows by more than chance",
        in_form=True,
    )
    known_until: str = param(
        "", "Time up to which served rows and outcomes are read, such as 2026-11-28 20:00 in UTC; empty is now"
    )
    evaluation_batch_size: int = EVALUATION_BATCH_SIZE
    experiment: str = EXPERIMENT
    run_id: str = RUN_ID
