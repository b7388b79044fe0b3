"""MLflow tracking: every step of a pipeline run writes into one MLflow run."""

from components.tracking.data import data_name, log_extensions, log_lineage, log_profile, log_splits, metric_name
from components.tracking.live import training_run
from components.tracking.run import TrackedRun, start_nested, tracked_run
from components.tracking.store import tracking_uri
from components.tracking.trained import complete_training

__all__ = [
    "TrackedRun",
    "complete_training",
    "data_name",
    "log_extensions",
    "log_lineage",
    "log_profile",
    "log_splits",
    "metric_name",
    "start_nested",
    "tracked_run",
    "tracking_uri",
    "training_run",
]
