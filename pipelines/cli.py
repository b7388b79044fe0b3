"""The ``kfrec`` command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from components.errors import KfrecError
from components.steps.catalog import STEPS
from pipelines.parameters import parse_assignment, step_parameters


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.action(options))
    except KfrecError as error:
        if options.debug:
            raise
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _run(options: argparse.Namespace) -> int:
    from pipelines.local import run

    values = dict(parse_assignment(text) for text in options.set)
    if options.source is not None:
        values["source"] = options.source
    if options.workers is not None:
        values["workers"] = options.workers
    print(run(values, Path(options.workdir)))
    return 0


def _compile(options: argparse.Namespace) -> int:
    from pipelines.compilation import write_compiled
    from pipelines.task_settings import load_settings

    settings = load_settings(Path(options.settings) if options.settings else None, options.registry)
    for path in write_compiled(Path(options.output), settings):
        print(path)
    return 0


def _ui(options: argparse.Namespace) -> int:
    workdir = Path(options.workdir).absolute()
    uri = os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{workdir / 'mlflow.db'}")
    if uri.startswith("http"):
        print(f"runs are kept by the MLflow server at {uri}")
        return 0
    command = ["mlflow", "ui", "--backend-store-uri", uri, "--port", str(options.port)]
    print(f"http://localhost:{options.port}   (stop with Ctrl-C)\n{' '.join(command)}", flush=True)
    if not options.print_only:
        os.execv(str(Path(sys.executable).with_name("mlflow")), command)
    return 0


def _parameter_help() -> str:
    """Every pipeline parameter with unit and default, by step; a shared one stands where it first occurs."""
    lines, seen = ["pipeline parameters, for --set name=value:"], set[str]()
    for step in STEPS.values():
        lines += ["", f"{step.name}: {step.summary}"]
        for parameter in step_parameters(step):
            if parameter.pipeline_name not in seen:
                seen.add(parameter.pipeline_name)
                lines.append(f"  {parameter.pipeline_name:<32} {parameter.description}")
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    options = dict(formatter_class=argparse.RawDescriptionHelpFormatter, epilog=_parameter_help())
    parser = argparse.ArgumentParser(
        prog="kfrec",
        description="From raw interaction logs to a registered click-through-rate model.",
        **options,  # type: ignore[arg-type]
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run the training pipeline on this machine", **options)  # type: ignore[arg-type]
    run.add_argument(
        "--source", metavar="WHERE", help="folder, http(s)://, gs:// or s3:// prefix, or synthetic (default)"
    )
    run.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="set a pipeline parameter")
    run.add_argument("--workers", metavar="N", help="Horovod processes that train together (default 1)")
    _add_workdir(run)
    run.set_defaults(action=_run)

    compile_ = commands.add_parser("compile", help="write the pipelines as KFP's IR YAML and as Kubernetes manifests")
    compile_.add_argument("--output", default="build", metavar="FOLDER", help="default %(default)s")
    compile_.add_argument(
        "--settings", metavar="FILE", help="resources, tolerations, secrets and more by step; see task_settings.yaml"
    )
    compile_.add_argument(
        "--registry",
        default=os.environ.get("KFREC_REGISTRY", ""),
        metavar="PREFIX",
        help="stands before the images' names (default: the environment variable KFREC_REGISTRY)",
    )
    compile_.set_defaults(action=_compile)

    ui = commands.add_parser("ui", help="look at the runs in MLflow")
    ui.add_argument("--port", type=int, default=5000, help="default %(default)s")
    ui.add_argument("--print-only", action="store_true", help="only say how, do not start the server")
    _add_workdir(ui)
    ui.set_defaults(action=_ui)
    return parser


def _add_workdir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workdir", default="runs", metavar="FOLDER", help="where runs are kept (default %(default)s)")


if __name__ == "__main__":
    sys.exit(main())
