"""The arguments of a worker's command, from the parameters of the step."""

from __future__ import annotations

from typing import Any

from components.parameters import parameters_of, plain
from components.steps.catalog import LaunchParameters, worker_parameters


def worker_arguments(parameters: LaunchParameters, data: str, results: str, checkpoints: str) -> list[str]:
    """Folders or URIs, and every training parameter that differs from its default; empty ``checkpoints`` is omitted."""
    folders = [f"--dataset_dir={data}", f"--results_dir={results}"]
    folders += [f"--save_checkpoint_path={checkpoints}"] if checkpoints else []
    values = {
        parameter.name: getattr(parameters, parameter.name)
        for parameter in parameters_of(worker_parameters(parameters.model_type, parameters.task))
        if getattr(parameters, parameter.name, parameter.default) != parameter.default
    }
    return folders + [f"--{name}={_text(value)}" for name, value in values.items()]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(plain(value))
