"""Parameters that several steps share, and those that select a data set, model or task."""

from __future__ import annotations

from components.parameters import LARGEST_SEED, param

# Parameters that select a data set, model or task, whose parameters the step has in addition to its own.
DATASET = param("amazon_reviews", "Data set, which defines the raw files and their preprocessing")
MODEL = param("sim", "Model that is trained")
TASK = param("click", "Task that evaluates the model")
# Parameters that several steps share.
SEED = param(12345, "Random seed for the data", at_least=0, at_most=LARGEST_SEED)
EXPERIMENT = param("kfrec", "MLflow experiment", in_form=True)
RUN_ID = param(
    "", "Pipeline run whose MLflow run this step joins; empty joins MLFLOW_RUN_ID or starts a run of its own"
)
EVALUATION_BATCH_SIZE = param(16_384, "Samples scored at a time", unit="samples", at_least=1)
DATA_VERSION = param(
    "",
    "Version of the data at the source, recorded with the model; a new value also invalidates KFP's cache",
    in_form=True,
)
REGISTERED_MODEL = param(
    "kfrec-ctr", "Name in the MLflow model registry; its champion must be of the same task", in_form=True
)
_PREBATCH = "0 writes one Example per sample, and reads the size from the data"
PREBATCH_TRAIN_SIZE = param(0, f"Samples in one training record; {_PREBATCH}", unit="samples", at_least=0)
PREBATCH_TEST_SIZE = param(0, f"Samples in one test or validation record; {_PREBATCH}", unit="samples", at_least=0)
# Split to the parameter with the samples in one of its records.
PREBATCH_SIZES = {"train": "prebatch_train_size", "test": "prebatch_test_size", "validation": "prebatch_test_size"}
# The source that stands for the built-in data set.
SYNTHETIC = "synthetic"
