"""The two ways to call a step: ``python -m components.<step>`` and a KFP component. Both end in its ``run``."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from components.errors import KfrecError, explain_os_error
from components.progress import emit
from components.steps.catalog import STEPS, Step
from components.steps.mounted import use_mounted_environment
from components.steps.parameter import Parameter, build, parameters_of


def command(name: str, arguments: Sequence[str] | None = None) -> int:
    """Runs the step ``name`` from a command line and returns the exit status."""
    step = STEPS[name]
    parser = argument_parser(step)
    options = vars(parser.parse_args(arguments))
    debug = options.pop("debug")
    folders = {folder: Path(options.pop(folder)) for folder in (*step.inputs, *step.outputs)}
    given = {key: value for key, value in options.items() if value is not None}
    return _guarded(step, lambda: _told(call(step, given, folders)), debug)


def component(name: str, arguments: Mapping[str, Any]) -> Any:
    """Runs the step ``name`` inside a KFP component; returns its results as KFP wants them, None where it has none.

    Args:
        name: the step.
        arguments: the component function's arguments: artifacts (with ``.path`` and ``.uri``) and parameters by name.
            A step that declares a parameter ``<artifact>_uri`` is also told where KFP keeps that artifact.
    """
    step = STEPS[name]
    folders = {folder: Path(arguments[folder].path) for folder in (*step.inputs, *step.outputs)}
    declared = {p.name for p in parameters_of(step.parameters)}
    given = {key: value for key, value in arguments.items() if key in declared}
    given |= {f"{folder}_uri": arguments[folder].uri for folder in folders if f"{folder}_uri" in declared}
    use_mounted_environment()
    returned: list[Mapping[str, Any]] = []
    status = _guarded(step, lambda: returned.append(call(step, given, folders)), debug=False)
    if status:
        sys.exit(status)
    return namedtuple("Results", step.results)(**returned[0]) if step.results else None


def call(step: Step, values: Mapping[str, Any], folders: Mapping[str, Path]) -> dict[str, Any]:
    """Checks the parameters, runs the step, tells how long it took, and returns its results."""
    parameters: Any = build(step.parameters, values)
    run: Callable[..., Mapping[str, Any]] = importlib.import_module(f"components.{step.name}.step").run
    emit("started", step=step.name, run_id=values.get("run_id", ""))
    started = time.monotonic()
    returned = run(parameters, **folders)
    results = {name: returned[name] for name in step.results}
    rows = {name: count for name, count in returned.items() if name not in step.results}
    emit(
        "finished",
        step=step.name,
        seconds=round(time.monotonic() - started, 3),
        rows=sum(rows[name] for name in step.rows),
        counts=dict(rows),
        outputs={name: str(folders[name]) for name in step.outputs},
        results=results,
    )
    return results


def _told(results: Mapping[str, Any]) -> None:
    for name, value in results.items():
        print(f"{name}: {value}")


def argument_parser(step: Step) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m components.{step.name}", description=step.summary)
    folders = parser.add_argument_group("folders")
    for name, text in step.inputs.items():
        folders.add_argument(f"--{name}", required=True, metavar="FOLDER", help=f"reads: {text}")
    for name, text in step.outputs.items():
        folders.add_argument(f"--{name}", required=True, metavar="FOLDER", help=f"writes: {text}")
    group = parser.add_argument_group("parameters")
    for parameter in parameters_of(step.parameters):
        add_argument(group, parameter)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def add_argument(group: argparse._ArgumentGroup, parameter: Parameter) -> None:
    """Adds one parameter; a switch may stand alone (--amp) or take a value (--amp false)."""
    flag = dict(nargs="?", const="true") if parameter.value_type is bool else {}
    group.add_argument(
        f"--{parameter.name}",
        metavar=parameter.plain_type.__name__.upper(),
        help=parameter.description.replace("%", "%%"),
        **flag,  # type: ignore[arg-type]
    )


def _guarded(step: Step, job: Callable[[], Any], debug: bool) -> int:
    """Runs ``job``; turns bad input into one line and exit status 2."""
    try:
        job()
        return 0
    except (KfrecError, OSError) as error:
        told = explain_os_error(error) if isinstance(error, OSError) else error
        if debug or told is None:
            raise
        emit("error", step=step.name, message=str(told))
        print(f"error: {step.name}: {told}", file=sys.stderr, flush=True)
        return 2
