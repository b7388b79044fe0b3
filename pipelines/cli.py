"""The ``kfrec`` command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from components import registry
from components.errors import KfrecError, explain_os_error
from components.lifetime import Stopped, stopping_in_order
from components.steps.catalog import STEPS
from components.steps.parameter import Parameter
from components.steps.parser import Parser
from pipelines import predicting
from pipelines.defaults import MODEL, PIPELINES, PREDICTION, RETRAINING, TRAINING, Pipeline, every_pipeline
from pipelines.parameters import checked, parse_assignment, pipeline_parameters, step_parameters
from pipelines.ports import UI_PORT, require_free

WORKDIR = "runs"
_LISTED = "kfrec parameters --model NAME lists what --set can set."


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        with stopping_in_order(with_descendants=True):
            status = int(options.action(options))
            sys.stdout.flush()
            return status
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KfrecError, OSError) as error:
        told = explain_os_error(error) if isinstance(error, OSError) else error
        if options.debug or told is None:
            raise
        print(f"error: {told}", file=sys.stderr)
        return 2
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return 128 + stopped.number


def _run(options: argparse.Namespace) -> int:
    from pipelines.local import run, run_prediction, run_retraining

    values = dict(parse_assignment(text) for text in options.set)
    if options.source is not None:
        values["source"] = options.source
    if options.workers is not None:
        values["workers"] = options.workers
    _use_store_of(options)
    start = {TRAINING: run, RETRAINING: run_retraining, PREDICTION: run_prediction}[options.pipeline]
    summary = start(_pipeline(options), values, _workdir(options))
    if summary is not None:
        print(summary)
    return 0


def _pipeline(options: argparse.Namespace) -> Pipeline:
    return Pipeline(options.pipeline, options.model, options.dataset, options.task)


def _compile(options: argparse.Namespace) -> int:
    from pipelines.compilation import write_compiled
    from pipelines.task_settings import load_settings

    settings = load_settings(Path(options.settings) if options.settings else None, options.registry)
    if options.model:
        registry.model(options.model)
    elif options.dataset or options.task:
        raise KfrecError("--dataset and --task need a --model; name the model whose pipelines to write")
    pipelines = [
        one._replace(dataset=options.dataset, task=options.task)
        for one in every_pipeline()
        if options.model in ("", one.model)
    ]
    for path in write_compiled(Path(options.output), settings, pipelines):
        print(path)
    return 0


def _submit(options: argparse.Namespace) -> int:
    from pipelines.cluster.connection import ENDPOINT, connect
    from pipelines.cluster.submit import Submission, follow, submit
    from pipelines.compilation import compiled
    from pipelines.task_settings import load_settings

    settings = load_settings(Path(options.settings) if options.settings else None, options.registry)
    if options.no_cache:
        settings = settings.without_cache()
    pipeline = _pipeline(options)
    values = checked(dict(parse_assignment(text) for text in options.set), pipeline)
    host = (options.endpoint or os.environ.get(ENDPOINT, "")).rstrip("/")
    client = connect(options.endpoint, options.namespace)
    wanted = Submission(
        ir=compiled(pipeline, settings),
        pipeline=pipeline,
        values=values,
        experiment=options.experiment,
        name=options.run_name,
        pipeline_root=options.pipeline_root,
        service_account=options.service_account,
    )
    run_id = submit(client, host, wanted)
    return follow(client, host, run_id, options.timeout, options.pause) if options.wait else 0


def _schedule(options: argparse.Namespace) -> int:
    from pipelines.cluster.connection import ENDPOINT, connect
    from pipelines.cluster.reconcile import Reconciler
    from pipelines.cluster.schedules import load_schedules
    from pipelines.compilation import compiled
    from pipelines.task_settings import load_settings

    file = load_schedules(Path(options.file))
    settings = load_settings(Path(options.settings) if options.settings else None, options.registry)
    host = (options.endpoint or os.environ.get(ENDPOINT, "")).rstrip("/")
    client = connect(options.endpoint, options.namespace or file.namespace)
    Reconciler(
        client, host, lambda pipeline: compiled(pipeline, settings), dry_run=options.dry_run, prune=options.prune
    ).apply(file)
    return 0


def _workdir(options: argparse.Namespace) -> Path:
    """The folder of runs.

    Raises:
        KfrecError: its name is empty.
    """
    if options.workdir is not None and not options.workdir.strip():
        raise KfrecError("--workdir is empty; name a folder (is a shell variable unset?)")
    return Path(options.workdir or WORKDIR)


def _use_store_of(options: argparse.Namespace) -> None:
    """Sets MLflow's store to --tracking-uri, else to the folder of --workdir, else keeps MLFLOW_TRACKING_URI."""
    workdir = _workdir(options)
    from pipelines.local import database_uri

    if options.tracking_uri:
        os.environ["MLFLOW_TRACKING_URI"] = options.tracking_uri
    elif options.workdir is not None:
        os.environ["MLFLOW_TRACKING_URI"] = database_uri(workdir)


def _ui(options: argparse.Namespace) -> int:
    from components.tracking import tracking_uri
    from components.tracking.store import prepare
    from pipelines.local import database_uri

    _use_store_of(options)
    uri = tracking_uri() if os.environ.get("MLFLOW_TRACKING_URI") else database_uri(Path(WORKDIR))
    if uri.startswith("http"):
        print(f"runs are kept by the MLflow server at {uri}")
        return 0
    database = Path(uri.removeprefix("sqlite:///"))
    if uri.startswith("sqlite:///") and not database.is_file():
        raise KfrecError(f"{database}: no runs here yet; start one with kfrec run, or give --workdir FOLDER")
    if not 1 <= options.port <= 65_535:
        raise KfrecError(f"--port {options.port} is not a valid port; give one from 1 to 65535")
    if not options.print_only:
        require_free(options.port)
    command = ["mlflow", "ui", "--backend-store-uri", uri, "--port", str(options.port)]
    print(f"http://localhost:{options.port}   (stop with Ctrl-C)\n{' '.join(command)}", flush=True)
    if not options.print_only:
        os.environ["MLFLOW_TRACKING_URI"] = uri
        prepare()
        os.execv(str(Path(sys.executable).with_name("mlflow")), command)
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from pipelines.doctor.command import examine_cluster, examine_machine

    if not options.cluster:
        return examine_machine(_workdir(options), options.debug)
    from pipelines.task_settings import load_settings

    settings = load_settings(Path(options.settings) if options.settings else None, options.registry)
    return examine_cluster(
        settings,
        options.debug,
        endpoint=options.endpoint,
        namespace=options.namespace,
        root=options.pipeline_root,
        account=options.service_account,
        registry=options.registry,
    )


def _parameters(options: argparse.Namespace) -> int:
    """Every pipeline parameter with unit and default, by step; a shared one is listed with the first of its steps."""
    pipeline = Pipeline(TRAINING, options.model, options.dataset, options.task)
    known: dict[str, Parameter] = {}
    for kind in (*PIPELINES, TRAINING):
        known |= pipeline_parameters(pipeline.of_kind(kind))
    seen = set[str]()
    for step in STEPS.values():
        print(f"{step.name}: {step.summary}")
        for parameter in step_parameters(step, pipeline):
            if parameter.pipeline_name not in seen:
                seen.add(parameter.pipeline_name)
                print(f"  {parameter.pipeline_name:<32} {known[parameter.pipeline_name].description}")
        print()
    return 0


def _models(options: argparse.Namespace) -> int:
    for name in registry.names(registry.MODELS):
        print(f"{name:<16} {registry.model(name).summary}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="kfrec", description="From raw logs to a trained, evaluated and registered model.")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run a pipeline on this machine", epilog=_LISTED)
    _add_pipeline(run)
    run.add_argument(
        "--source", metavar="WHERE", help="folder, http(s)://, gs:// or s3:// prefix, or synthetic (default)"
    )
    run.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="set a pipeline parameter")
    run.add_argument("--workers", metavar="N", help="Horovod processes that train together (default 1)")
    _add_workdir(run)
    run.set_defaults(action=_run)

    parameters = commands.add_parser("parameters", help="list the parameters of a model's pipelines")
    _add_model(parameters)
    parameters.set_defaults(action=_parameters)

    compile_ = commands.add_parser("compile", help="write the pipelines as KFP's IR YAML and as Kubernetes manifests")
    compile_.add_argument(
        "--model", default="", metavar="NAME", help="only the pipelines of this model (default: all models)"
    )
    _add_choices(compile_)
    compile_.add_argument("--output", default="build", metavar="FOLDER", help="default %(default)s")
    _add_settings(compile_)
    compile_.set_defaults(action=_compile)

    submit = commands.add_parser("submit", help="run a pipeline on a cluster", epilog=_LISTED)
    _add_pipeline(submit)
    submit.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="set a pipeline parameter")
    submit.add_argument("--experiment", default="kfrec", help="KFP experiment (default %(default)s)")
    submit.add_argument("--run-name", default="", metavar="NAME", help="name of the run (default: pipeline and time)")
    submit.add_argument(
        "--pipeline-root", default="", metavar="URI", help="where artifacts go (default: the cluster's)"
    )
    submit.add_argument("--service-account", default="", metavar="NAME", help="runs the steps (default: the cluster's)")
    submit.add_argument("--no-cache", action="store_true", help="do not reuse outputs of earlier runs")
    submit.add_argument("--wait", action="store_true", help="follow the run; exit with 1 if it fails")
    submit.add_argument(
        "--timeout", type=float, default=172_800, metavar="S", help="timeout of --wait (default %(default)s s)"
    )
    submit.add_argument("--pause", type=float, default=5, metavar="S", help="between two polls (default %(default)s s)")
    _add_endpoint(submit)
    _add_settings(submit)
    submit.set_defaults(action=_submit)

    schedule = commands.add_parser("schedule", help="reconcile the cluster's recurring runs with a file")
    actions = schedule.add_subparsers(title="commands", required=True, metavar="COMMAND")
    apply = actions.add_parser("apply", help="create, change, pause, resume and delete recurring runs as needed")
    apply.add_argument("-f", "--file", required=True, metavar="FILE", help="schedules.yaml")
    apply.add_argument("--dry-run", action="store_true", help="only show what would change")
    apply.add_argument("--prune", action="store_true", help="delete kfrec's schedules that the file does not name")
    _add_endpoint(apply)
    _add_settings(apply)
    apply.set_defaults(action=_schedule)

    models = commands.add_parser("models", help="list the models that are installed")
    models.set_defaults(action=_models)

    doctor = commands.add_parser("doctor", help="check this machine, or a cluster, for missing prerequisites")
    doctor.add_argument("--workdir", metavar="FOLDER", help=f"where runs are kept (default {WORKDIR})")
    doctor.add_argument("--cluster", action="store_true", help="check a cluster; the other options are for this")
    doctor.add_argument("--pipeline-root", default="", metavar="URI", help="where artifacts go (default: KFP's)")
    doctor.add_argument(
        "--service-account",
        default="",
        metavar="NAME",
        help="account of the steps whose rights are checked (default: yours)",
    )
    _add_endpoint(doctor)
    _add_settings(doctor)
    doctor.set_defaults(action=_doctor)

    predicting.add_commands(commands, _add_workdir, _use_store_of)

    ui = commands.add_parser("ui", help="show the runs in MLflow")
    ui.add_argument("--port", type=int, default=UI_PORT, help="default %(default)s")
    ui.add_argument("--print-only", action="store_true", help="only print the command, do not start the server")
    _add_workdir(ui)
    ui.set_defaults(action=_ui)
    return parser


def _add_pipeline(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pipeline", default=TRAINING, choices=PIPELINES, help="default %(default)s")
    _add_model(parser)


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default=MODEL, metavar="NAME", help="default %(default)s; see kfrec models")
    _add_choices(parser)


def _add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dataset", default="", metavar="NAME", help="data set (default: the model's own)")
    parser.add_argument("--task", default="", metavar="NAME", help="task that evaluates it (default: the model's own)")


def _add_endpoint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--endpoint", default="", metavar="URL", help="KFP's API (default: KFP_ENDPOINT)")
    parser.add_argument("--namespace", default="", metavar="NAME", help="the user's namespace, in multi-user KFP")


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--settings", metavar="FILE", help="resources, tolerations, secrets and more by step; see task_settings.yaml"
    )
    parser.add_argument(
        "--registry",
        default=os.environ.get("KFREC_REGISTRY", ""),
        metavar="PREFIX",
        help="prefix of the images' names (default: the environment variable KFREC_REGISTRY)",
    )


def _add_workdir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workdir", metavar="FOLDER", help=f"where runs are kept (default {WORKDIR})")
    parser.add_argument(
        "--tracking-uri",
        default="",
        metavar="URI",
        help="of MLflow (default: the database in --workdir if that is given, else MLFLOW_TRACKING_URI)",
    )


if __name__ == "__main__":
    sys.exit(main())
