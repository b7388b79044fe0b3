"""What commands share: their interface, options, and readers of the options' values."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from components.errors import KfrecError
from components.images import REGISTRY
from components.served_rows import VARIABLE
from pipelines.defaults import LARGE, MODEL, OF_REFIT, PIPELINES, REFIT, SIZES, TRAINING, Pipeline

if TYPE_CHECKING:
    from pipelines.runs.record import RunRecord

WORKDIR = "runs"
# The default ports of kfrec ui and kfrec serve.
UI_PORT, SERVE_PORT = 5000, 5001
# Help text of a model argument.
REGISTERED_OR_FOLDER = (
    "name@alias or name/version of a registered model, a run of --workdir or last, or the folder that the train step "
    "wrote"
)
# What commands take without a model.
BY_DEFAULT = "(default: the champion of the newest run's registered model)"
PARAMETERS_LISTED = "kfrec parameters --model NAME lists what --set can set."


class Command(NamedTuple):
    """A command of ``kfrec``.

    Attributes:
        summary: one line of ``kfrec --help``.
        add_arguments: adds the command's arguments to its parser.
        execute: runs the command and returns the exit status; a KfrecError reports bad input.
    """

    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    execute: Callable[[argparse.Namespace], int]
    epilog: str = ""


def add_pipeline(parser: argparse.ArgumentParser) -> None:
    """--pipeline, and the options of ``add_model``; ``pipeline_of`` reads them."""
    parser.add_argument("--pipeline", default=TRAINING, choices=PIPELINES, help="default %(default)s")
    add_model(parser)


def pipeline_of(options: argparse.Namespace) -> Pipeline:
    return Pipeline(options.pipeline, options.model, options.dataset, options.task)


def add_nights(parser: argparse.ArgumentParser) -> None:
    """--from and --until, the data versions of a backfill; see ``pipelines.nights``."""
    parser.add_argument(
        "--from",
        dest="first",
        metavar="VERSION",
        help="with --pipeline retraining or incremental: a run for each data version from this one, in order; those "
        "that a model was trained on are skipped",
    )
    parser.add_argument("--until", dest="last", metavar="VERSION", help="until this one (default: the newest)")


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default=MODEL, metavar="NAME", help="default %(default)s; see kfrec models")
    add_choices(parser)


def add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dataset", default="", metavar="NAME", help="data set (default: the model's own)")
    parser.add_argument("--task", default="", metavar="NAME", help="task that evaluates it (default: the model's own)")


def add_set(parser: argparse.ArgumentParser) -> None:
    """--set, once for each parameter."""
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="set a pipeline parameter")


def add_after(parser: argparse.ArgumentParser) -> None:
    """--after, the model whose training comes first."""
    parser.add_argument(
        "--after",
        default="",
        metavar="NAME",
        help="train this model first, and start from its weights, or rank what it retrieves; its parameters have "
        "first_ before their names",
    )


def add_endpoint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--endpoint", default="", metavar="URL", help="KFP's API (default: KFP_ENDPOINT)")
    parser.add_argument("--namespace", default="", metavar="NAME", help="the user's namespace, in multi-user KFP")


def add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--settings", metavar="FILE", help="resources, tolerations, secrets and more by step; see task_settings.yaml"
    )


def add_size(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--size",
        choices=SIZES,
        default=LARGE,
        help="of the data: small is up to some million samples, for which the steps ask for 2 cores and 8 GiB, the "
        "training for no GPU, and batches have the size that kfrec run has (default %(default)s)",
    )


def add_registry(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--registry",
        default=os.environ.get(REGISTRY, ""),
        metavar="PREFIX",
        help="prefix of the images' names (default: the environment variable KFREC_REGISTRY)",
    )


def add_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log",
        default=os.environ.get(VARIABLE, ""),
        metavar="FOLDER_OR_URI",
        help="write what is answered as served rows, parquet files by hour (default: the environment variable "
        f"{VARIABLE}, else nothing)",
    )


def add_workdir(parser: argparse.ArgumentParser) -> None:
    """--workdir; ``workdir_of`` reads it."""
    parser.add_argument("--workdir", metavar="FOLDER", help=f"where runs are kept (default {WORKDIR})")


def workdir_of(options: argparse.Namespace) -> Path:
    """The folder of runs.

    Raises:
        KfrecError: the name is empty or a URI.
    """
    if options.workdir is not None and not options.workdir.strip():
        raise KfrecError("--workdir is empty; name a folder (is a shell variable unset?)")
    from components.storage import require_folder

    require_folder("--workdir", options.workdir or "")
    return Path(options.workdir or WORKDIR)


def add_tracked_workdir(parser: argparse.ArgumentParser) -> None:
    """--workdir and --tracking-uri; ``use_store_of`` reads them."""
    add_workdir(parser)
    parser.add_argument(
        "--tracking-uri",
        default="",
        metavar="URI",
        help="of MLflow (default: the database in --workdir if that is given, else MLFLOW_TRACKING_URI)",
    )


def use_store_of(options: argparse.Namespace) -> None:
    """Sets MLflow's store to --tracking-uri, else to the folder of --workdir, else keeps MLFLOW_TRACKING_URI."""
    workdir = workdir_of(options)
    from pipelines.runs.lifecycle import database_uri

    if options.tracking_uri:
        os.environ["MLFLOW_TRACKING_URI"] = options.tracking_uri
    elif options.workdir is not None:
        os.environ["MLFLOW_TRACKING_URI"] = database_uri(workdir)


def model_of(options: argparse.Namespace) -> str:
    """The MODEL argument; without one, the default, which is printed.

    Raises:
        KfrecError: no run of --workdir has registered a model.
    """
    if options.model is not None:
        return str(options.model)
    from pipelines.runs.registered import default_model

    named, run = default_model(workdir_of(options))
    print(f"model: {named}, since run {run} is the newest with a registered model", flush=True)
    return named


def run_of_model(options: argparse.Namespace, named: str) -> RunRecord | None:
    """The run whose model a MODEL argument names, by its name in --workdir, its folder, or ``last``; None for others.

    Raises:
        KfrecError: the run has no model, or there are no runs.
    """
    from pipelines.runs.record import LAST, RECORD, find_run

    workdir = workdir_of(options)
    if named != LAST and not any((folder / RECORD).is_file() for folder in (workdir / named, Path(named))):
        return None
    run = find_run(workdir, named)
    if "train" not in run.steps:
        raise KfrecError(f"run {run.name} ({run.state_now()}) has trained no model; name another run, see kfrec runs")
    return run


def output_of(run: RunRecord, step: str, name: str) -> str:
    return str(run.steps[step]["outputs"][name])


def published_output(run: RunRecord, step: str, name: str) -> str:
    """The folder of an output of a finished step: that of the refit, if the run has published one."""
    published = run.steps.get(OF_REFIT + REFIT[-1], {}).get("results", {}).get("refit")
    return output_of(run, OF_REFIT + step if published else step, name)


def input_file(option: str, named: str) -> Path:
    """Checks an input file before the model is loaded.

    Raises:
        KfrecError: it does not exist, or has an unknown format.
    """
    from components.inference.formats import rows_file

    if not named.strip():
        raise KfrecError(f"{option} is empty; name a file (is a shell variable unset?)")
    path = Path(named)
    rows_file(path)
    if not path.is_file():
        raise KfrecError(f"{named}: no such file; check the path")
    return path


def require_free(port: int, *, free: bool = True) -> None:
    """Checks that a server can listen on a port.

    Args:
        free: whether it must be unused, too.

    Raises:
        KfrecError: it cannot.
    """
    if not 1 <= port <= 65_535:
        raise KfrecError(f"--port {port} is not a valid port; give one from 1 to 65535")
    if not free:
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise KfrecError(f"--port {port} cannot be used ({error.strerror}); give another one") from None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
