"""Parameters of the steps but training: from raw files to records, and of those that evaluate and use a model."""

from __future__ import annotations

from dataclasses import dataclass

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
    RUN_ID,
    SEED,
    SYNTHETIC,
    TASK,
    param,
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
        "Rows, such as reviews, that a version must have and the champion's data lack",
        unit="rows",
        at_least=0,
        in_form=True,
    )
    force: bool = param(False, "Train on the newest version even without new rows", in_form=True)
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
    largest_download: float = param(
        1000.0, "Largest total size of the fetched files; a larger source is refused", unit="GB", at_least=0
    )
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


@dataclass(frozen=True)
class RegisterParameters:
    """When a model becomes the champion."""

    registered_model: str = REGISTERED_MODEL
    task: str = TASK
    model_type: str = MODEL
    promotion_margin: float = param(
        0.001, "A challenger must beat the champion's primary metric by this much, in its unit", at_least=0
    )
    bootstrap_samples: int = param(1000, "Resamples of the confidence interval", unit="resamples", at_least=100)
    confidence: float = param(0.95, "Level of the confidence interval", at_least=0.5, at_most=0.9999)
    evaluation_batch_size: int = EVALUATION_BATCH_SIZE
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


@dataclass(frozen=True)
class PredictParameters:
    """Which rows are scored, and with which model."""

    model_version: str = param(
        f"{REGISTERED_MODEL.default}@champion",
        "Model: name@alias or name/version of a registered one, or the folder or URI of an output of the train step",
        in_form=True,
    )
    rows: str = param(
        "",
        "Folder, gs://, s3:// or minio:// prefix whose *.parquet, *.csv and *.jsonl files are scored, or one such file",
        in_form=True,
    )
    beside: bool = param(True, "Also write the scores beside the rows, such as day.scores.csv beside day.csv")
    prediction_batch_size: int = param(4096, "Rows scored at a time", unit="rows", at_least=1)
