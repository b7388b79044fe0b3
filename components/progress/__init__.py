"""Telling a person, or the process that started us, how far a step has come."""

from components.progress.bar import Bar, progress
from components.progress.events import emit, emitting

__all__ = ["Bar", "emit", "emitting", "progress"]
