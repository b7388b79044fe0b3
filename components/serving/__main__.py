"""``python -m components.serving``: a process that ``components.serving.launch`` starts."""

from components.serving.worker import run

run()
