"""Commands that use a model on rows: ``kfrec predict``, ``serve`` and ``serve-manifest``."""

from __future__ import annotations

import argparse
from pathlib import Path

from components.errors import KfrecError
from components.parameters import parameters_of
from components.steps.parameters import PredictParameters
from components.temporary import temporary_folder
from pipelines.cli.options import (
    REGISTERED_OR_FOLDER,
    SERVE_PORT,
    Command,
    add_registry,
    add_tracked_workdir,
    input_file,
    published_output,
    require_free,
    run_of_model,
    use_store_of,
)

(_BATCH_SIZE,) = (p for p in parameters_of(PredictParameters) if p.name == "prediction_batch_size")


def _predict_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help=REGISTERED_OR_FOLDER)
    parser.add_argument("--input", required=True, metavar="FILE", help="*.parquet, *.csv[.gz] or *.jsonl[.gz]")
    parser.add_argument("--output", required=True, metavar="FILE", help="the same, with the scores")
    parser.add_argument(
        "--batch-size", default=_BATCH_SIZE.default, metavar="N", help="rows at a time (default %(default)s)"
    )
    add_tracked_workdir(parser)


def _predict(options: argparse.Namespace) -> int:
    from components.predict.formats import rows_file
    from components.predict.model import named_model
    from components.predict.scoring import replacing, score_file

    use_store_of(options)
    source, target = input_file("--input", options.input), Path(options.output)
    rows = _BATCH_SIZE.parse(options.batch_size)
    rows_file(target)
    run = run_of_model(options, options.model)
    with (
        temporary_folder(),
        named_model(published_output(run, "train", "model") if run else options.model) as named,
        replacing(target, [source], named.raw.outputs) as partial,
    ):
        counts = score_file(named.raw, rows_file(source), partial, rows_file(target), rows, f"scoring {source.name}")
    print(f"{named.description}: {counts.summary}\n{target}")
    return 0


def _serve_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help=REGISTERED_OR_FOLDER)
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="to listen on (default %(default)s)")
    parser.add_argument("--port", type=int, default=SERVE_PORT, help="default %(default)s")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes (default %(default)s)")
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
        from components.predict.model import version_of

        held = version_of(named)
        command = ["mlflow", "models", "serve", "--model-uri", f"models:/{held.name}/{held.version}"]
        print(*command, "--env-manager", "local", "--host", options.host, "--port", options.port)
        return 0
    from components.serving.launch import processes

    with temporary_folder() as scratch, processes(options.workers, options.host, options.port, scratch) as server:
        # Its imports take seconds, in which the processes import TensorFlow.
        from components.predict.model import named_files

        with named_files(named) as files:
            with files.loading():
                server.serve(files.folder, files.name, files.version)
            everyone = "every user of this machine" if options.host == "127.0.0.1" else "everyone who reaches it"
            print(
                f"{files.described} at http://{options.host}:{options.port}/invocations   "
                f"(stop with Ctrl-C; {everyone} can call it)",
                flush=True,
            )
            server.wait()
    return 0


def _version_or_folder(options: argparse.Namespace) -> str:
    """What MODEL names; of a run, the version that it registered, or else its model."""
    from pipelines.summary import published

    run = run_of_model(options, options.model)
    if run is None:
        return str(options.model)
    registered = published(run.summary())
    return f"{registered['model']}/{registered['version']}" if registered else published_output(run, "train", "model")


def _manifest_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="name@alias or name/version; an alias becomes its version now")
    parser.add_argument("--name", default="kfrec", help="of the InferenceService (default %(default)s)")
    add_registry(parser)
    add_tracked_workdir(parser)


def _manifest(options: argparse.Namespace) -> int:
    from components.predict.model import version_of
    from pipelines.serving import rendered

    use_store_of(options)
    held = version_of(options.model)
    print(rendered(held.name, str(held.version), options.name, options.registry), end="")
    return 0


COMMANDS = {
    "predict": Command("score a file of raw rows", _predict_arguments, _predict),
    "serve": Command("serve a model on this machine", _serve_arguments, _serve),
    "serve-manifest": Command("write a KServe InferenceService for a registered model", _manifest_arguments, _manifest),
}
