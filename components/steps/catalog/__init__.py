"""The single definition of every step's parameters, inputs and outputs.

The command lines, the KFP components, the pipeline's inputs and the docs are generated from these classes. Names and
defaults of the training parameters are those of the public SIM documentation.
"""

from __future__ import annotations

from components.datasets.parameters import PreprocessParameters
from components.shared_parameters import PREBATCH_SIZES, REGISTERED_MODEL, SYNTHETIC
from components.steps.catalog.data import (
    DownloadParameters,
    EvaluateParameters,
    FindParameters,
    PredictParameters,
    RegisterParameters,
    TfrecordParameters,
)
from components.steps.catalog.steps import (
    STEPS,
    Step,
    brought_defaults,
    brought_layers,
    defaults_by,
    worker_parameters,
)
from components.steps.catalog.training import (
    BEST,
    GLOO,
    LAST,
    LOCAL,
    MAY_CHANGE,
    MPI,
    MPIJOB,
    LaunchParameters,
    TrainParameters,
    WorkerParameters,
)

__all__ = [
    "BEST",
    "GLOO",
    "LAST",
    "LOCAL",
    "MAY_CHANGE",
    "MPI",
    "MPIJOB",
    "PREBATCH_SIZES",
    "REGISTERED_MODEL",
    "STEPS",
    "SYNTHETIC",
    "DownloadParameters",
    "EvaluateParameters",
    "FindParameters",
    "LaunchParameters",
    "PredictParameters",
    "PreprocessParameters",
    "RegisterParameters",
    "Step",
    "TfrecordParameters",
    "TrainParameters",
    "WorkerParameters",
    "brought_defaults",
    "brought_layers",
    "defaults_by",
    "worker_parameters",
]
