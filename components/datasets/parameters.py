"""The parameters of the preprocess step that every data set reads."""

from __future__ import annotations

from dataclasses import dataclass

from components.checks.limits import Limits
from components.parameters import DATASET, SEED, param


@dataclass(frozen=True)
class _Conversion:
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
    shared_folder: str = param(
        "", "Folder that this step and the workers of scheduler see at the same path; empty is the output's disk"
    )
    malformed_limit: float = param(
        0.01, "Largest accepted share of malformed lines in a raw file", at_least=0, at_most=1
    )
    longest_line: float = param(
        64.0, "Longest accepted line of a raw file; a small compressed file may hold a line of gigabytes", unit="MiB",
        at_least=8,
    )  # fmt: skip
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


@dataclass(frozen=True)
class PreprocessParameters(Limits, _Conversion):
    """How and where raw files become training samples, and the limits of the data checks."""

    seed: int = SEED
