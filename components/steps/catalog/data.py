"""Parameters of the steps from raw files to records."""

from __future__ import annotations

from dataclasses import dataclass

from components.parameters import param
from components.shared_parameters import (
    DATA_VERSION,
    DATASET,
    MODEL,
    PREBATCH_TEST_SIZE,
    PREBATCH_TRAIN_SIZE,
    REGISTERED_MODEL,
    SEED,
    SYNTHETIC,
    TASK,
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
    task: str = TASK
    model_type: str = MODEL
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
