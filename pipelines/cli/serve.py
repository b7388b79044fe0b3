"""Commands that use a model on rows: ``kfrec predict``, ``serve`` and ``serve-manifest``."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from components.errors import KfrecError
from components.parameters import parameters_of
from components.steps.parameters import PredictParameters
from components.temporary import temporary_folder
from pipelines.cli.options import (
    BY_DEFAULT,
    REGISTERED_OR_FOLDER,
    SERVE_PORT,
    Command,
    add_log,
    add_registry,
    add_tracked_workdir,
    input_file,
    model_of,
    published_output,
    require_free,
    run_of_model,
    use_store_of,
)

if TYPE_CHECKING:
    from components.inference.model import NamedFiles
    from components.serving.launch import Processes
    from components.serving.worker import ModelFiles

(_BATCH_SIZE,) = (p for p in parameters_of(PredictParameters) if p.name == "prediction_batch_size")


def _predict_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", nargs="?", help=f"{REGISTERED_OR_FOLDER} {BY_DEFAULT}")
    parser.add_argument("--input", required=True, metavar="FILE", help="*.parquet, *.csv[.gz] or *.jsonl[.gz]")
    parser.add_argument("--output", required=True, metavar="FILE", help="the same, with the scores")
    parser.add_argument(
        "--batch-size", default=_BATCH_SIZE.default, metavar="N", help="rows at a time (default %(default)s)"
    )
    add_log(parser)
    add_tracked_workdir(parser)


def _predict(options: argparse.Namespace) -> int:
    from components.inference.formats import rows_file
    from components.inference.model import named_model
    from components.inference.scoring import replacing, score_file
    from components.served_rows.batch import batch_log

    use_store_of(options)
    source, target = input_file("--input", options.input), Path(options.output)
    rows = _BATCH_SIZE.parse(options.batch_size)
    rows_file(target)
    model = model_of(options)
    run = run_of_model(options, model)
    with (
        temporary_folder(),
        named_model(published_output(run, "train", "model") if run else model) as named,
        replacing(target, [source], named.raw.outputs) as partial,
        batch_log(options.log, named.name, named.registered) as log,
    ):
        title = f"scoring {source.name}"
        counts = score_file(named.raw, rows_file(source), partial, rows_file(target), rows, title, log)
    print(f"{named.description}: {counts.summary}\n{target}")
    return 0


def _serve_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", nargs="?", help=f"{REGISTERED_OR_FOLDER} {BY_DEFAULT}")
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="to listen on (default %(default)s)")
    parser.add_argument("--port", type=int, default=SERVE_PORT, help="default %(default)s")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes (default %(default)s)")
    add_log(parser)
    parser.add_argument(
        "--variant", metavar="NAME", help="of the rows of --log, such as canary (default: the alias that MODEL names)"
    )
    parser.add_argument(
        "--watch",
        type=int,
        default=30,
        metavar="SECONDS",
        help="how often to look whether the alias that MODEL names has another version, which is loaded and then "
        "served; 0 keeps the first one (default %(default)s)",
    )
    parser.add_argument(
        "--print-only", action="store_true", help="only print the command of MLflow's own server for it"
    )
    add_tracked_workdir(parser)


def _serve(options: argparse.Namespace) -> int:
    use_store_of(options)
    require_free(options.port, free=False)
    if options.workers < 1:
        raise KfrecError(f"--workers {options.workers} is below 1; give the number of processes")
    named = _version_or_folder(options)
    if options.print_only:
        from components.inference.model import version_of

        held = version_of(named)
        command = ["mlflow", "models", "serve", "--model-uri", f"models:/{held.name}/{held.version}"]
        print(*command, "--env-manager", "local", "--host", options.host, "--port", options.port)
        return 0
    from components.serving.launch import processes

    if options.watch < 0:
        raise KfrecError(f"--watch {options.watch} is below 0; give a number of seconds, or 0 to keep the version")
    if options.log:
        from components.served_rows import log

        log.opened(options.log)
    alias = named.partition("@")[2]
    with (
        temporary_folder() as scratch,
        processes(options.workers, options.host, options.port, scratch) as server,
        ExitStack() as opened,
    ):
        # Its imports take seconds, in which the processes import TensorFlow.
        from components.inference.model import named_files

        files = opened.enter_context(named_files(named))
        with files.loading():
            server.serve(_model_files(files, named), options.log, alias if options.variant is None else options.variant)
        everyone = "every user of this machine" if options.host == "127.0.0.1" else "everyone who reaches it"
        print(
            f"{files.described} at http://{options.host}:{options.port}/invocations   "
            f"(stop with Ctrl-C; {everyone} can call it)",
            flush=True,
        )
        if alias and options.watch:
            _follow(server, named, files, opened, options.watch)
        server.wait(None)
    return 0


def _follow(server: Processes, named: str, files: NamedFiles, held: ExitStack, seconds: float) -> None:
    """Serves each version that the alias gets, once it is loaded; returns never.

    The version before goes on answering until every process has loaded the new one, and stays if one cannot.

    Args:
        named: ``name@alias``.
        held: closes them once another version is served.
        seconds: between two looks.

    Raises:
        KfrecError: a process of the server has ended.
    """
    from components.inference.model import named_files, version_of

    refused, printed = "", ""
    while True:
        server.wait(seconds)
        try:
            version = str(version_of(named).version)
            if version in (files.version, refused):
                continue
            with ExitStack() as opened:
                found = opened.enter_context(named_files(f"{files.name}/{version}"))
                if error := server.replace(_model_files(found, named)):
                    refused = version
                    _tell(f"{found.described} is not served, so {files.described} stays: {error}")
                    continue
                _tell(f"{found.described} is served instead of {files.described}")
                held.close()
                held.enter_context(opened.pop_all())
            files, refused, printed = found, "", ""
        except KfrecError as error:
            if str(error) != printed:
                _tell(f"{files.described} stays: {error}")
            printed = str(error)


def _model_files(files: NamedFiles, named: str) -> ModelFiles:
    """What a server is told of a model; in the log, a folder has the name that was given."""
    from components.serving.worker import ModelFiles

    return ModelFiles(str(files.folder), files.name, files.version, files.name if files.version else named)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _version_or_folder(options: argparse.Namespace) -> str:
    """What MODEL names; of a run, the version that it registered, or else its model."""
    from pipelines.summary import published

    model = model_of(options)
    run = run_of_model(options, model)
    if run is None:
        return model
    registered = published(run.summary())
    return f"{registered['model']}/{registered['version']}" if registered else published_output(run, "train", "model")


def _manifest_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="name@alias or name/version; an alias becomes its version now")
    parser.add_argument("--name", default="kfrec", help="of the InferenceService (default %(default)s)")
    parser.add_argument(
        "--follow", action="store_true", help="serve whatever version the alias has, instead of the one that it has now"
    )
    parser.add_argument(
        "--log", default="", metavar="URI", help="write what is served there, as kfrec serve --log does"
    )
    parser.add_argument(
        "--canary", type=int, metavar="PERCENT", help="share of requests that --canary-model answers; needs --kserve"
    )
    parser.add_argument(
        "--canary-model", metavar="MODEL", help="another version of MODEL (default: the one with the alias challenger)"
    )
    parser.add_argument("--kserve", default="", metavar="VERSION", help="of KServe in the cluster, such as 0.20")
    add_registry(parser)
    add_tracked_workdir(parser)


def _manifest(options: argparse.Namespace) -> int:
    from components.inference.model import version_of
    from components.storage import is_uri
    from components.tracking.champion import CHALLENGER
    from pipelines.serving import inference_service, rendered, with_canary

    use_store_of(options)
    held, alias = version_of(options.model), options.model.partition("@")[2]
    if options.follow and not alias:
        raise KfrecError(f"--follow: {options.model} has no alias to follow; name the model as {held.name}@champion")
    if options.log and not is_uri(options.log):
        raise KfrecError(f"--log {options.log}: a pod's folder ends with it; give gs://, s3:// or minio://")
    if options.canary is None and (options.canary_model or options.kserve):
        raise KfrecError("--canary-model and --kserve are of a canary; give --canary PERCENT, too")
    followed = alias if options.follow else ""
    service = inference_service(held.name, str(held.version), options.name, options.registry, followed, options.log)
    if options.canary is not None:
        canary = version_of(options.canary_model or f"{held.name}@{CHALLENGER}")
        if canary.name != held.name:
            raise KfrecError(f"--canary-model {options.canary_model}: is no version of {held.name}; name one of it")
        service = with_canary(service, str(canary.version), options.canary, options.kserve)
    print(rendered(service), end="")
    return 0


COMMANDS = {
    "predict": Command("score a file of raw rows", _predict_arguments, _predict),
    "serve": Command("serve a model on this machine", _serve_arguments, _serve),
    "serve-manifest": Command("write a KServe InferenceService for a registered model", _manifest_arguments, _manifest),
}
