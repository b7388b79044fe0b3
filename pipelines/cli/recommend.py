"""``kfrec recommend``: the items that users would most likely choose next."""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from components.errors import KfrecError
from components.secrets import without_password
from components.tasks.pairing import RETRIEVED
from components.temporary import temporary_folder
from pipelines.cli.histories import Histories, add_histories, histories_for
from pipelines.cli.options import (
    BY_DEFAULT,
    REGISTERED_OR_FOLDER,
    Command,
    add_log,
    add_tracked_workdir,
    input_file,
    model_of,
    published_output,
    run_of_model,
    use_store_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from components.artifacts import Artifact
    from components.inference.model import NamedModel
    from components.inference.recommend import Delivery, Exclusions
    from components.scoring import RawModel
    from components.scoring.catalogue import Catalogue
    from components.served_rows.batch import BatchLog


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("user", metavar="USER", nargs="?", help="id of the user")
    parser.add_argument("--all", action="store_true", help="all users of the data, instead of USER; needs --output")
    parser.add_argument(
        "--users", metavar="FILE", help="file with users, and histories if it has them, instead of USER; needs --output"
    )
    parser.add_argument("--model", metavar="MODEL", help=f"{REGISTERED_OR_FOLDER} {BY_DEFAULT}")
    parser.add_argument("--top", type=int, default=20, metavar="N", help="items to list (default %(default)s)")
    parser.add_argument("--history", metavar="A,B,...", help="the user's items, oldest first")
    add_histories(parser)
    parser.add_argument(
        "--candidates",
        metavar="FILE",
        help="file with items to choose from, and their boost, available_until and category if it has these columns "
        "(default: all items)",
    )
    parser.add_argument("--at", metavar="TIME", help="time at which available_until is past (default: now)")
    parser.add_argument("--per-category", type=int, default=0, metavar="N", help="most items of a category in a list")
    parser.add_argument(
        "--exclude", metavar="FILE", help="file with users and items that are not for them, such as what they bought"
    )
    parser.add_argument(
        "--never-again",
        metavar="KIND,...",
        help="kinds of events whose items are not listed again, such as purchase, also with --keep-seen",
    )
    parser.add_argument(
        "--retriever", metavar="MODEL", help="a retrieval model, whose best candidates alone are scored by --model"
    )
    parser.add_argument(
        "--retrieve", type=int, default=RETRIEVED, metavar="N", help="candidates of --retriever (default %(default)s)"
    )
    parser.add_argument(
        "--keep-seen",
        action=argparse.BooleanOptionalAction,
        help="whether to list items of the history, too (default: as in the model's evaluation)",
    )
    parser.add_argument(
        "--output", metavar="FILE_OR_URL", help="write the lists to this file, or a database by its SQLAlchemy URL"
    )
    parser.add_argument("--table", default="lists", metavar="NAME", help="table of the database (default %(default)s)")
    parser.add_argument(
        "--vectors",
        metavar="FOLDER",
        help="write the vectors of users and items of a retrieval model as parquet, instead of lists",
    )
    parser.add_argument("--left-out", metavar="FILE", help="write the users without a list, and why they have none")
    add_log(parser)
    add_tracked_workdir(parser)


def _recommend(options: argparse.Namespace) -> int:
    from components.inference.delivery import is_database
    from components.inference.events import list_new_items
    from components.inference.files import candidates_in, exclusions_in, seconds_of
    from components.inference.formats import rows_file
    from components.inference.model import named_model
    from components.inference.recommend import Delivery, Exclusions
    from components.scoring.catalogue import Catalogue
    from components.scoring.two_stages import TwoStages
    from components.served_rows.batch import batch_log

    use_store_of(options)
    _check(options)
    at = seconds_of(options.at) if options.at is not None else time.time()
    source = input_file("--candidates", options.candidates) if options.candidates is not None else None
    users = input_file("--users", options.users) if options.users is not None else None
    not_for = input_file("--exclude", options.exclude) if options.exclude is not None else None
    if options.output is not None and not is_database(options.output):
        rows_file(Path(options.output))
    sources = [path for path in (source, users, not_for) if path is not None]
    options.model = model_of(options)
    run = run_of_model(options, options.model)

    def of_model(raw: RawModel) -> Catalogue:
        return Catalogue(raw, *candidates_in(source, raw, at)) if source else Catalogue(raw)

    with ExitStack() as opened:
        opened.enter_context(temporary_folder())
        named = opened.enter_context(named_model(published_output(run, "train", "model") if run else options.model))
        if named.pair:
            _require_alone(options, named.pair.retrieve)
            catalogue: Catalogue = named.pair.catalogue(of_model)
        else:
            catalogue = of_model(named.raw)
        if options.retriever is not None:
            of_retriever = run_of_model(options, options.retriever)
            retriever = published_output(of_retriever, "train", "model") if of_retriever else options.retriever
            first = opened.enter_context(named_model(retriever)).raw
            _require_stages(options, first, named.raw)
            catalogue = TwoStages(of_model(first), catalogue, options.retrieve)
        histories, events = histories_for(options, named, run, opened)
        if options.vectors is None:
            list_new_items(catalogue, events)
        pairs = [exclusions_in(not_for, named.raw)] if not_for else []
        if options.never_again is not None:
            pairs.append(_never_again(options, named.raw, events))
        exclusions = Exclusions(pairs) if pairs else None
        delivery, name = None, run.name if run else named.name
        if options.vectors is not None:
            _write_vectors(options, named, catalogue, histories, users, name)
            return 0
        if options.output is not None:
            delivery = Delivery(options.output, sources, name, named.version, options.table)
        with batch_log(options.log, named.name, named.registered) as log:
            if options.user is None:
                assert delivery is not None
                _write_all(options, named, catalogue, histories, users, delivery, exclusions, log)
            else:
                _list_one(options, named, catalogue, histories, delivery, exclusions, log)
    return 0


def _never_again(options: argparse.Namespace, model: RawModel, events: Artifact | None) -> pa.Table:
    """What users have in events of the kinds of --never-again."""
    from components.inference.events import never_again

    if events is None:
        raise KfrecError(f"--never-again {options.never_again}: kinds are those of raw events; name them with --events")
    users = None if options.user is None or options.history is not None else [options.user]
    return never_again(events, model, options.never_again, "--never-again", users)


def _check(options: argparse.Namespace) -> None:
    if options.top < 1:
        raise KfrecError(f"--top {options.top} is below 1; give the number of items to list")
    if options.per_category < 0:
        raise KfrecError(
            f"--per-category {options.per_category} is below 0; give the items of a category, or leave it out"
        )
    if options.at is not None and options.candidates is None:
        raise KfrecError("--at is of the column available_until of --candidates; give both")
    if options.retriever is not None and options.retrieve < options.top:
        raise KfrecError(
            f"--retrieve {options.retrieve} is below --top {options.top}; retrieve more candidates than are listed"
        )
    named = [name for name, value in (
        ("USER", options.user is not None), ("--all", options.all), ("--users", options.users is not None)
    ) if value]  # fmt: skip
    if len(named) != 1:
        raise KfrecError(f"give one of USER, --all and --users FILE; given: {', '.join(named) or 'none'}")
    if options.vectors is not None and (options.user is not None or options.output is not None):
        raise KfrecError("--vectors FOLDER is of --all and --users, in place of --output; give one of these")
    if options.user is not None:
        if not options.user.strip():
            raise KfrecError("the user's id is empty; give one (is a shell variable unset?)")
        if options.left_out is not None:
            raise KfrecError("--left-out is of --all and --users; leave it out")
        return
    if options.output is None and options.vectors is None:
        raise KfrecError(f"{named[0]} writes a file; give --output FILE, such as lists.parquet, or a database")
    if options.history is not None:
        raise KfrecError(f"--history is of one user; give USER instead of {named[0]}, or --users with a column of them")


def _require_alone(options: argparse.Namespace, retrieve: int) -> None:
    """Checks what is without_context of a pair."""
    if options.retriever is not None:
        raise KfrecError(f"--model {options.model} is a pair, with a first stage of its own; leave out --retriever")
    if options.top > retrieve:
        raise KfrecError(f"--top {options.top} is above the {retrieve} that {options.model} retrieves; list fewer")


def _require_stages(options: argparse.Namespace, first: RawModel, second: RawModel) -> None:
    """Checks that the first stage alone is a retrieval model."""
    if not first.model.retrieval:
        raise KfrecError(
            f"--retriever {options.retriever} does not retrieve: it has neither vectors of users and items nor "
            "scores of all items; name a retrieval model, such as one of sasrec or item_knn"
        )
    if second.model.retrieval:
        raise KfrecError(
            f"--model {options.model} is a retrieval model, too; name the ranking model that orders what "
            f"--retriever {options.retriever} finds, or leave out --retriever"
        )


def _list_one(
    options: argparse.Namespace,
    named: NamedModel,
    catalogue: Catalogue,
    histories: Histories,
    delivery: Delivery | None,
    exclusions: Exclusions | None,
    log: BatchLog | None,
) -> None:
    import pyarrow as pa

    from components.progress import progress
    from components.scoring.recommend import recommend

    if options.history is not None:
        history = pa.array([[item.strip() for item in options.history.split(",") if item.strip()]])
    else:
        ((_, history),) = histories([options.user])
    with progress("scoring candidates", 1, "users") as bar:
        items = recommend(
            catalogue,
            [options.user],
            history,
            options.top,
            keep_seen=options.keep_seen,
            excluded=exclusions.of(named.raw.spelled("user", pa.array([options.user]))) if exclusions else (),
            per_category=options.per_category,
            ranked=bar.advance,
        )
    left = int(items.candidates[0])
    if not left:
        raise KfrecError(
            f"user {options.user}: no candidate is left: all {len(catalogue.names):,} are in the history"
            f"{' or excluded' if exclusions else ''}; --keep-seen lists those of the history, too"
        )
    if log is not None:
        log.listed(items.table, items.lengths)
    if delivery is not None:
        with delivery.writing(catalogue) as write:
            write(items.table)
    print(f"{named.description}: {left:,} candidates for {options.user} after {len(history[0])} items")
    if catalogue.note:
        print(f"the model {catalogue.note}")
    if unknown := int(items.unknown[0]):
        print(f"{unknown:,} ids of the user and the history are unknown to the model")
    names = items.table.column_names[1:]
    rows = [
        [f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in row.values()]
        for row in items.table.select(names).to_pylist()
    ]
    if not any(row[-1] for row in rows):
        names, rows = names[:-1], [row[:-1] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    for line in [names, *rows]:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def _write_vectors(
    options: argparse.Namespace,
    named: NamedModel,
    catalogue: Catalogue,
    histories: Histories,
    users: Path | None,
    name: str,
) -> None:
    from components.inference.files import users_in
    from components.inference.history import without_context
    from components.inference.vectors import ITEMS, USERS, write_vectors

    if named.pair or options.retriever is not None:
        raise KfrecError(f"--vectors: {options.model} is ranked in two stages; name the retrieval model alone")
    people = users_in(users, named.raw, histories) if users else without_context(histories(None))
    count, items = write_vectors(catalogue, people, Path(options.vectors), name, named.version)
    print(f"{named.description}: {count:,} users in {USERS} and {items:,} items in {ITEMS}, in {options.vectors}")


def _write_all(
    options: argparse.Namespace,
    named: NamedModel,
    catalogue: Catalogue,
    histories: Histories,
    users: Path | None,
    delivery: Delivery,
    exclusions: Exclusions | None,
    log: BatchLog | None,
) -> None:
    from components.inference.files import users_in
    from components.inference.history import without_context
    from components.inference.recommend import write_lists

    if catalogue.scores_pairs:
        print(
            f"{named.description} has neither item_scores nor user_vectors and target_vectors: scoring "
            f"{len(catalogue.names):,} pairs a user; --retriever MODEL leaves it the best candidates of another model",
            flush=True,
        )
    counts = write_lists(
        catalogue,
        users_in(users, named.raw, histories) if users else without_context(histories(None)),
        options.top,
        delivery,
        keep_seen=options.keep_seen,
        exclusions=exclusions,
        per_category=options.per_category,
        left_out=Path(options.left_out) if options.left_out is not None else None,
        log=log,
    )
    print(
        f"{named.description}: {counts.items:,} items for {counts.users:,} users, of {len(catalogue.names):,} "
        f"candidates, in {without_password(delivery.output)}"
    )
    for line in counts.lines(catalogue):
        print(line)


COMMANDS = {
    "recommend": Command(
        "list the items that a user, or every user, would most likely choose next", _arguments, _recommend
    )
}
