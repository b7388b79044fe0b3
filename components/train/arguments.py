"""The arguments of a worker's command, from the parameters of the step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from components.steps.catalog import LaunchParameters, TrainParameters
from components.steps.parameter import parameters_of, plain


def worker_arguments(parameters: LaunchParameters, data: Path, results: Path, checkpoints: Path) -> list[str]:
    """Folders, and every training parameter that is not at its default."""
    folders = [f"--dataset_dir={data}", f"--results_dir={results}", f"--save_checkpoint_path={checkpoints}"]
    given = {
        parameter.name: getattr(parameters, parameter.name)
        for parameter in parameters_of(TrainParameters)
        if getattr(parameters, parameter.name) != parameter.default
    }
    return folders + [f"--{name}={_text(value)}" for name, value in given.items()]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(plain(value))
