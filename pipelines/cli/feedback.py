"""Commands after the deployment: ``kfrec feedback``, ``forget`` and ``prune``."""

from __future__ import annotations

import argparse

from components.errors import KfrecError
from components.secrets import without_password
from pipelines.cli.options import (
    BY_DEFAULT,
    REGISTERED_OR_FOLDER,
    Command,
    add_set,
    add_tracked_workdir,
    model_of,
    published_output,
    run_of_model,
    use_store_of,
    workdir_of,
)
from pipelines.defaults import FEEDBACK, Pipeline
from pipelines.parameters import parse_assignment


def _feedback_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--served", required=True, metavar="FOLDER", help="folder or URI of served rows")
    parser.add_argument(
        "--outcomes", required=True, metavar="FILE", help="file, folder or prefix of outcomes, by request or by user"
    )
    parser.add_argument("--model", metavar="MODEL", help=f"{REGISTERED_OR_FOLDER} {BY_DEFAULT}")
    add_set(parser)
    add_tracked_workdir(parser)


def _feedback(options: argparse.Namespace) -> int:
    from pipelines.local import run

    use_store_of(options)
    model = model_of(options)
    of_run = run_of_model(options, model)
    values = {
        "served": options.served,
        "outcomes": options.outcomes,
        "model_version": published_output(of_run, "train", "model") if of_run else model,
        **dict(parse_assignment(text) for text in options.set),
    }
    print(run(Pipeline(FEEDBACK), values, workdir_of(options)))
    return 0


def _forget_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("user", metavar="USER", help="id of the user, as in served rows and outcomes")
    parser.add_argument("--served", action="append", default=[], metavar="FOLDER", help="folder or URI of served rows")
    parser.add_argument("--outcomes", action="append", default=[], metavar="FILE", help="file, folder or prefix")
    parser.add_argument("--column", default="", metavar="NAME", help="column that names the user, of models of tables")
    parser.add_argument("--dry-run", action="store_true", help="only count, and name the models")
    add_tracked_workdir(parser)


def _forget(options: argparse.Namespace) -> int:
    """0 if no model contains the user any more, else 1."""
    from components.feedback.forget import forget_outcomes, forget_served, models_with

    if not options.user.strip():
        raise KfrecError("the user's id is empty; give one (is a shell variable unset?)")
    use_store_of(options)
    removed, requests = "would be removed" if options.dry_run else "removed", frozenset[tuple[str, int]]()
    for location in options.served:
        gone = forget_served(location, options.user, options.column, dry=options.dry_run)
        requests |= gone.requests
        print(f"{without_password(location)}: {gone.rows:,} served rows in {gone.files:,} files {removed}")
    for location in options.outcomes:
        gone = forget_outcomes(location, options.user, requests, dry=options.dry_run)
        print(f"{without_password(location)}: {gone.rows:,} outcomes in {gone.files:,} files {removed}")
    contains = 0
    for held in models_with(options.user, options.column):
        contains += 1
        version = f", data version {held.data_version}" if held.data_version else ""
        data = f", trained on {without_password(held.data)}{version}" if held.data else version
        print(f"{held.name} version {held.version}: its vocabulary {held.vocabulary} has the user{data}")
    print(_ADVICE if contains else "no registered version has the user in its vocabulary")
    return 1 if contains else 0


_ADVICE = "remove the user from these data, train again without the parameter workflow, and prune these versions"


def _prune_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--older-than", type=float, default=30.0, metavar="DAYS", help="age of what may go (default %(default)g)"
    )
    parser.add_argument(
        "--keep", type=int, default=10, metavar="N", help="newest runs, and versions of a model, that stay (default 10)"
    )
    parser.add_argument(
        "--model", action="append", metavar="NAME", help="registered model whose versions may go; may be repeated; all "
        "by default, if the store is the workdir's own"
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="only list")
    add_tracked_workdir(parser)


def _prune(options: argparse.Namespace) -> int:
    """1 if something could not be removed."""
    from components.tracking.store import tracking_uri
    from pipelines.runs.lifecycle import database_uri
    from pipelines.runs.prune import Limits, examine, remove

    if options.older_than < 0 or options.keep < 0:
        raise KfrecError(f"--older-than {options.older_than:g} --keep {options.keep}: give numbers from 0 on")
    use_store_of(options)
    workdir = workdir_of(options)
    if not options.model and (uri := tracking_uri()) != database_uri(workdir):
        raise KfrecError(
            f"{without_password(uri)}: others may use this store; name your registered models with --model"
        )
    models = frozenset(options.model) if options.model else None
    found = examine(workdir, Limits(options.older_than, options.keep, models))
    for each in found:
        print(f"{each.what}: stays, because {each.because}" if each.because else f"{each.what}: goes")
    gone = sum(not each.because for each in found)
    if options.dry_run:
        print(f"{gone} would be removed; nothing was")
        return 0
    problems = remove(found, workdir)
    print(*problems, f"{gone - len(problems)} removed; mlflow gc frees what MLflow keeps of them", sep="\n")
    return 1 if problems else 0


COMMANDS = {
    "feedback": Command(
        "join served rows with their outcomes, and measure the model's live quality",
        _feedback_arguments,
        _feedback,
        "kfrec parameters --pipeline feedback lists what --set can set.",
    ),
    "forget": Command(
        "remove a user from served rows and outcomes, and name the models that contain the user",
        _forget_arguments,
        _forget,
    ),
    "prune": Command("remove old runs and registered versions, but for what is needed", _prune_arguments, _prune),
}
