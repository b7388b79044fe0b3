"""Tasks, which evaluate models: a package each, registered under the entry points ``kfrec.tasks``."""

from components.tasks.definition import Kept, Measured, Metric, Scores, Streaming, TaskDefinition

__all__ = ["Kept", "Measured", "Metric", "Scores", "Streaming", "TaskDefinition"]
