"""The two ways to call a step: ``python -m components.<step>`` and a KFP component. Both end in its ``run``."""

from __future__ import annotations

import importlib
import os
import re
import sys
import time
import traceback
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from components.artifacts.folder import MANIFEST, open_artifact
from components.artifacts.publish import output_folder
from components.artifacts.reference import data_uri, publishing_reference
from components.crash import describe_exception
from components.errors import KfrecError, WorkerCrashed, explain_os_error
from components.lifetime import Stopped, end_with_parent, stopping_in_order
from components.parameters import Parameter, build, parameters_of, unknown_parameter
from components.progress import emit, emitting
from components.secrets import with_passwords
from components.steps.catalog import STEPS, Step
from components.steps.parser import Parser, add_argument, chosen, restart_in_utf8, words_of
from components.steps.prometheus import tell
from components.storage import is_uri, require_folder
from components.temporary import temporary_folder

# Inputs of a step's KFP component that are JSON objects: what a run sets by pipeline-wide name, and all that it may
# set, with the defaults. Other parameters are inputs of their own.
OPTIONS, DEFAULTS = "options", "defaults"
# Keys of a sentence about the outcome, and of metrics, that a step may return with its counts and results.
SUMMARY, METRICS = "summary", "metrics"
# The folders of the settings that a cluster mounts: a file for each environment variable. Kubernetes keeps internal
# entries (..data) next to them. kfp-kubernetes requires that a secret or a config map exists to map it to a variable; a
# volume may be optional (kubeflow/pipelines issue 11401).
_MOUNTED = Path("/etc/kfrec")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


def command(name: str, arguments: Sequence[str] | None = None) -> int:
    """Runs the step ``name`` from a command line and returns the exit status."""
    if arguments is None:
        restart_in_utf8()
    end_with_parent()  # a sweep's trials are such commands
    step = STEPS[name]
    words = words_of(arguments, Parser(shown_as=name, prog=f"python -m components.{name}"))
    choice = chosen(step, words)
    try:
        parser = argument_parser(step, choice)
    except KfrecError as error:
        return _fail(step, str(error), 2)
    options = vars(parser.parse_args(words))
    debug = options.pop("debug")
    folders = {folder: options.pop(folder) for folder in (*step.inputs, *step.outputs)}
    values = {key: value for key, value in options.items() if value is not None} | choice

    def job() -> None:
        with temporary_folder():
            call(step, values, folders)

    return _guarded(step, job, debug)


def component(name: str, arguments: Mapping[str, Any]) -> Any:
    """Runs the step ``name`` inside a KFP component; returns its results in KFP's form, None if it has none.

    If KFP's artifacts are in object storage, outputs become references: kfrec uploads the data, KFP the manifest.

    Args:
        arguments: the component function's arguments: artifacts (with ``.path`` and ``.uri``) and parameters by name. A
            step that declares a parameter ``<artifact>_uri`` also gets the location of that artifact's data.
    """
    end_with_parent()
    step = STEPS[name]
    use_mounted_environment()
    returned: list[Mapping[str, Any]] = []
    status = _guarded(step, lambda: returned.append(_component(step, arguments)), debug=False)
    if status:
        sys.exit(status)
    return namedtuple("Results", step.results)(**returned[0]) if step.results else None


def use_mounted_environment(root: Path = _MOUNTED) -> None:
    """Sets the variables in the folders below ``root``, without a trailing newline; those that are set already win."""
    for file in sorted(root.glob("*/*"), reverse=True):
        if _VARIABLE.fullmatch(file.name) and file.is_file():
            os.environ.setdefault(file.name, file.read_text().rstrip("\r\n"))


def _component(step: Step, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Runs the step on artifacts of KFP; see ``component``."""
    folders = {name: str(arguments[name].path) for name in (*step.inputs, *step.outputs)}
    uris = {name: arguments[name].uri for name in folders}
    remote = [name for name in step.outputs if is_uri(uris[name])]
    declared = {p.name: p for p in parameters_of(step.parameters(arguments))}
    given = {name: value for name, value in arguments.items() if name in declared} | _options(step, arguments, declared)
    values = with_passwords(given)
    with ExitStack() as published:
        for name in remote:
            folders[name] = str(published.enter_context(publishing_reference(uris[name], Path(folders[name]))))
            uris[name] = data_uri(uris[name])
        values |= {f"{name}_uri": uri for name, uri in uris.items() if f"{name}_uri" in declared}
        results = call(step, values, folders)
        if step.shown:
            paths = {name: Path(folder) for name, folder in folders.items()}
            importlib.import_module(f"components.{step.name}.step").show(paths, arguments)
    for name in remote:
        made = open_artifact(arguments[name].path)
        arguments[name].metadata.update(
            data=made.data_uri, digest=made.digest, **{f"rows_{k}": v for k, v in made.rows.items()}
        )
    return results


def _options(step: Step, arguments: Mapping[str, Any], declared: Mapping[str, Parameter]) -> dict[str, Any]:
    """The parameters by name that a KFP component gets in JSON objects.

    Raises:
        KfrecError: there is no such parameter, or it has an input of its own.
    """
    defaults, options = arguments.get(DEFAULTS, {}), arguments.get(OPTIONS, {})
    wide = {parameter.pipeline_name: parameter for parameter in declared.values()}
    if arguments.get("refitting"):  # the pipeline sets some of them in place of the user
        options = {name: value for name, value in options.items() if name in defaults}
    for name in options:
        if name in wide and wide[name].name in arguments:
            raise KfrecError(f"{step.name}_{OPTIONS}: {name} is a field of its own; set it there")
        if name not in defaults:
            raise KfrecError(f"{step.name}_{OPTIONS}: {unknown_parameter(name, list(defaults))}")
    # Messages use the name that the user gave.
    every = {**defaults, **options}
    return {wide[name].name: replace(wide[name], name=name).parse(value) for name, value in every.items()}


def call(step: Step, values: Mapping[str, Any], folders: Mapping[str, str]) -> dict[str, Any]:
    """Checks parameters and folders, runs the step, reports the outcome, and returns its results.

    Args:
        folders: input and output folders by name, as the user gave them.

    Raises:
        KfrecError: an invalid parameter, a folder that may not be written, or an error of the step.
    """
    parameters: Any = build(step.parameters(values), values)
    paths = _checked(step, folders)
    run: Callable[..., Mapping[str, Any]] = importlib.import_module(f"components.{step.name}.step").run
    emit("started", step=step.name, run_id=values.get("run_id", ""))
    started = time.monotonic()
    returned = run(parameters, **paths)
    results = {name: returned[name] for name in step.results}
    rows = {
        name: count for name, count in returned.items() if name not in step.results and name not in (SUMMARY, METRICS)
    }
    tell(step.name, time.monotonic() - started, rows, returned.get(METRICS, {}))
    emit(
        "finished",
        step=step.name,
        seconds=round(time.monotonic() - started, 3),
        rows=sum(rows.get(name, 0) for name in step.rows or tuple(rows)[:1]),
        counts=dict(rows),
        outputs={name: str(paths[name]) for name in step.outputs},
        results=results,
    )
    if not emitting():
        print(_result_lines(step, rows, returned.get(SUMMARY, ""), paths, time.monotonic() - started), flush=True)
    return results


def argument_parser(step: Step, choice: Mapping[str, str]) -> Parser:
    """The command line of a step, with the parameters of the chosen data set, model or task.

    Raises:
        KfrecError: nothing of that name exists.
    """
    parser = Parser(shown_as=step.name, prog=f"python -m components.{step.name}", description=step.summary)
    folders = parser.add_argument_group("folders")
    for name, text in step.inputs.items():
        folders.add_argument(f"--{name}", required=True, metavar="FOLDER", help=f"reads: {text}")
    for name, text in step.outputs.items():
        folders.add_argument(f"--{name}", required=True, metavar="FOLDER", help=f"writes: {text}")
    group = parser.add_argument_group("parameters")
    for parameter in parameters_of(step.parameters(choice)):
        add_argument(group, parameter)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def format_size(size: int) -> str:
    """A size for people: "812 bytes", "4.5 MB"."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"


def _checked(step: Step, folders: Mapping[str, str]) -> dict[str, Path]:
    """The folders of a step, checked before any work: an output may only replace what the step itself wrote."""
    for name, folder in folders.items():
        if not folder.strip():
            raise KfrecError(f"--{name} is empty; name a folder (is a shell variable unset?)")
        require_folder(f"--{name}", folder)
    inputs = {name: Path(folders[name]) for name in step.inputs}
    return inputs | {name: output_folder(folders[name], step.name, inputs.values()) for name in step.outputs}


def _result_lines(step: Step, rows: Mapping[str, int], summary: str, paths: Mapping[str, Path], seconds: float) -> str:
    counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in rows.items())
    lines = [f"{step.name}: {counts} in {seconds:.1f} s"] + ([summary] if summary else [])
    for name in step.outputs:
        if (paths[name] / MANIFEST).is_file():
            size = sum(entry.size for entry in open_artifact(paths[name]).files)
            lines.append(f"{name}: {format_size(size)} in {paths[name]}")
    return "\n".join(lines)


def _guarded(step: Step, job: Callable[[], Any], debug: bool) -> int:
    """Runs ``job`` and returns the exit status.

    2 is for bad input, 1 for an uncaught exception, a crashed worker or too little memory, 128 + n for signal n.
    """
    try:
        with stopping_in_order():
            job()
        return 0
    except Stopped as stopped:
        line = f"{stopped}; its processes were ended, and no unfinished output was published"
        return _fail(step, line, 128 + stopped.number)
    except (Exception, SystemExit) as error:
        if debug:
            raise
        return _explain(step, error)


def _explain(step: Step, error: BaseException) -> int:
    """Reports an exception that ends the step, and returns the exit status."""
    explained = explain_os_error(error) if isinstance(error, OSError) else error
    if isinstance(explained, KfrecError):
        return _fail(step, str(explained), 2)
    if isinstance(error, MemoryError):
        reason = str(error).partition("\n")[0] or type(error).__name__
        return _fail(step, f"out of memory ({reason}); give the step more memory, or fewer workers", 1)
    if isinstance(error, WorkerCrashed):
        return _fail(step, str(error), 1)
    traceback.print_exception(error)
    sys.stderr.flush()
    return _fail(step, describe_exception(error), 1, crashed=True)


def _fail(step: Step, message: str, status: int, **fields: Any) -> int:
    emit("error", step=step.name, message=message, **fields)
    print(f"error: {step.name}: {message}", file=sys.stderr, flush=True)
    return status
