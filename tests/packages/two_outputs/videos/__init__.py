"""Two labels and two outputs: whether a video was clicked, and how many seconds of each third of it were watched."""

from videos.dataset import DATASET
from videos.definition import MODEL
from videos.task import TASK

__all__ = ["DATASET", "MODEL", "TASK"]
