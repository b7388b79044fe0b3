"""Progress reports for the user or for the parent process."""

from components.progress.bar import Bar, progress
from components.progress.events import emit, emitting, warn

__all__ = ["Bar", "emit", "emitting", "progress", "warn"]
