"""MLflow tracking: every step of a pipeline run writes into one MLflow run."""

from components.tracking.run import TrackedRun, tracked_run
from components.tracking.source import git_commit
from components.tracking.store import tracking_uri

__all__ = ["TrackedRun", "git_commit", "tracked_run", "tracking_uri"]
