"""Tasks, which evaluate models: a package each, registered under the entry points ``kfrec.tasks``."""

from components.contract import Metric
from components.tasks.controls import Baselines, Controls, Probe, Samples
from components.tasks.definition import (
    CatalogueMeasure,
    Exchange,
    Kept,
    Measured,
    NoParameters,
    Ranked,
    ReadingTables,
    Streaming,
    TaskDefinition,
    measured_with,
)
from components.tasks.difference import RESAMPLES, Difference, difference_of
from components.tasks.kept import histories_of, kept_features, lists_of, missing_column
from components.tasks.scores import Controlled, Scores
