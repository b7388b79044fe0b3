"""``kfrec recommend``: the items that users would most likely choose next."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from components.errors import KfrecError
from components.parameters import REGISTERED_MODEL
from components.tasks.pairing import RETRIEVED
from components.temporary import temporary_folder
from pipelines.cli.options import (
    REGISTERED_OR_FOLDER,
    Command,
    add_tracked_workdir,
    input_file,
    published_output,
    run_of_model,
    use_store_of,
)

if TYPE_CHECKING:
    from components.predict.model import NamedModel
    from components.predict.recommend import Exclusions
    from components.scoring import RawModel
    from components.scoring.catalogue import Catalogue

_CHAMPION = f"{REGISTERED_MODEL.default}@champion"


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("user", metavar="USER", nargs="?", help="id of the user")
    parser.add_argument("--all", action="store_true", help="all users of the data, instead of USER; needs --output")
    parser.add_argument(
        "--users", metavar="FILE", help="file with users, and histories if it has them, instead of USER; needs --output"
    )
    parser.add_argument(
        "--model", default=_CHAMPION, metavar="MODEL", help=f"{REGISTERED_OR_FOLDER} (default %(default)s)"
    )
    parser.add_argument("--top", type=int, default=20, metavar="N", help="items to list (default %(default)s)")
    parser.add_argument("--history", metavar="A,B,...", help="the user's items, oldest first (default: of the data)")
    parser.add_argument("--data", default="", metavar="FOLDER", help="records with the users' histories")
    parser.add_argument("--candidates", metavar="FILE", help="file with items to choose from (default: all items)")
    parser.add_argument(
        "--exclude", metavar="FILE", help="file with users and items that are not for them, such as what they bought"
    )
    parser.add_argument(
        "--retriever", metavar="MODEL", help="a retrieval model, whose best candidates alone are scored by --model"
    )
    parser.add_argument(
        "--retrieve", type=int, default=RETRIEVED, metavar="N", help="candidates of --retriever (default %(default)s)"
    )
    parser.add_argument("--keep-seen", action="store_true", help="also list items of the history")
    parser.add_argument("--output", metavar="FILE", help="write the lists to this file")
    add_tracked_workdir(parser)


def _recommend(options: argparse.Namespace) -> int:
    from components.predict.formats import rows_file
    from components.predict.model import named_model
    from components.predict.recommend import candidates_in, exclusions_in
    from components.scoring.catalogue import Catalogue
    from components.scoring.two_stages import TwoStages

    use_store_of(options)
    _check(options)
    source = input_file("--candidates", options.candidates) if options.candidates is not None else None
    users = input_file("--users", options.users) if options.users is not None else None
    not_for = input_file("--exclude", options.exclude) if options.exclude is not None else None
    target = Path(options.output) if options.output is not None else None
    if target is not None:
        rows_file(target)
    sources = [path for path in (source, users, not_for) if path is not None]
    run = run_of_model(options, options.model)
    if run is not None:
        options.data = options.data or published_output(run, "tfrecord", "tfrecord")
    with ExitStack() as opened:
        opened.enter_context(temporary_folder())
        named = opened.enter_context(named_model(published_output(run, "train", "model") if run else options.model))
        if named.pair:
            _require_alone(options, named.pair.retrieve)
            catalogue: Catalogue = named.pair.catalogue(lambda raw: candidates_in(source, raw) if source else None)
        else:
            catalogue = Catalogue(named.raw, candidates_in(source, named.raw) if source else None)
        if options.retriever is not None:
            of_retriever = run_of_model(options, options.retriever)
            retriever = published_output(of_retriever, "train", "model") if of_retriever else options.retriever
            first = opened.enter_context(named_model(retriever)).raw
            _require_stages(options, first, named.raw)
            retrieval = Catalogue(first, candidates_in(source, first) if source else None)
            catalogue = TwoStages(retrieval, catalogue, options.retrieve)
        exclusions = exclusions_in(not_for, named.raw) if not_for else None
        if options.user is None:
            assert target is not None
            _write_all(options, named, catalogue, users, target, sources, exclusions)
        else:
            _list_one(options, named, catalogue, target, sources, exclusions)
    return 0


def _check(options: argparse.Namespace) -> None:
    if options.top < 1:
        raise KfrecError(f"--top {options.top} is below 1; give the number of items to list")
    if options.retriever is not None and options.retrieve < options.top:
        raise KfrecError(
            f"--retrieve {options.retrieve} is below --top {options.top}; retrieve more candidates than are listed"
        )
    named = [name for name, value in (
        ("USER", options.user is not None), ("--all", options.all), ("--users", options.users is not None)
    ) if value]  # fmt: skip
    if len(named) != 1:
        raise KfrecError(f"give one of USER, --all and --users FILE; given: {', '.join(named) or 'none'}")
    if options.user is not None:
        if not options.user.strip():
            raise KfrecError("the user's id is empty; give one (is a shell variable unset?)")
        return
    if options.output is None:
        raise KfrecError(f"{named[0]} writes a file; give --output FILE, such as lists.parquet")
    if options.history is not None:
        raise KfrecError(f"--history is of one user; give USER instead of {named[0]}, or --users with a column of them")


def _require_alone(options: argparse.Namespace, retrieve: int) -> None:
    """Checks what is asked of a pair."""
    if options.retriever is not None:
        raise KfrecError(f"--model {options.model} is a pair, with a first stage of its own; leave out --retriever")
    if options.top > retrieve:
        raise KfrecError(f"--top {options.top} is above the {retrieve} that {options.model} retrieves; list fewer")


def _require_stages(options: argparse.Namespace, first: RawModel, second: RawModel) -> None:
    """Checks that the first stage alone is a retrieval model."""
    if not first.model.vectors:
        raise KfrecError(
            f"--retriever {options.retriever} does not retrieve: it has no vectors of users and items; name a "
            "retrieval model, such as one of sasrec"
        )
    if second.model.vectors:
        raise KfrecError(
            f"--model {options.model} is a retrieval model, too; name the ranking model that orders what "
            f"--retriever {options.retriever} finds, or leave out --retriever"
        )


def _list_one(
    options: argparse.Namespace,
    named: NamedModel,
    catalogue: Catalogue,
    target: Path | None,
    sources: list[Path],
    exclusions: Exclusions | None,
) -> None:
    from components.predict.formats import rows_file, writing
    from components.predict.history import History, histories_of
    from components.predict.scoring import replacing
    from components.progress import progress
    from components.scoring.recommend import columns_of, recommend

    if options.history is not None:
        history: History = [item.strip() for item in options.history.split(",") if item.strip()]
    else:
        ((_, (history,)),) = histories_of([options.user], options.data or named.data)
    with progress("scoring candidates", 1, "users") as bar:
        items = recommend(
            catalogue,
            [options.user],
            [history],
            options.top,
            keep_seen=options.keep_seen,
            excluded=exclusions.of([options.user]) if exclusions else (),
            ranked=bar.advance,
        )
    left = int(items.candidates[0])
    if not left:
        raise KfrecError(
            f"user {options.user}: no candidate is left: all {len(catalogue.names):,} are in the history"
            f"{' or excluded' if exclusions else ''}; --keep-seen lists those of the history, too"
        )
    if target is not None:
        with (
            replacing(target, sources, columns_of(catalogue)) as partial,
            writing(partial, rows_file(target)) as writer,
        ):
            for batch in items.table.to_batches():
                writer.write(batch)
    print(f"{named.description}: {left:,} candidates for {options.user} after {len(history)} items")
    _say(catalogue, int(items.unknown[0]))
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


def _write_all(
    options: argparse.Namespace,
    named: NamedModel,
    catalogue: Catalogue,
    users: Path | None,
    target: Path,
    sources: list[Path],
    exclusions: Exclusions | None,
) -> None:
    from components.predict.history import histories_of
    from components.predict.recommend import recommend_to_file, users_in

    data = options.data or named.data
    people = users_in(users, named.raw, data) if users else histories_of(None, data)
    counts = recommend_to_file(
        catalogue, people, options.top, target, sources, keep_seen=options.keep_seen, exclusions=exclusions
    )
    print(
        f"{named.description}: {counts.items:,} items for {counts.users:,} users, of {len(catalogue.names):,} "
        f"candidates, in {target}"
    )
    if counts.empty:
        print(f"{counts.empty:,} users have no list: all candidates are in their histories")
    if counts.flagged:
        print(f"{counts.flagged:,} of the items are flagged: their scores are not trained, or popular ones are listed")
    _say(catalogue, counts.unknown)


def _say(catalogue: Catalogue, unknown: int) -> None:
    if catalogue.note:
        print(f"the model {catalogue.note}")
    if unknown:
        print(f"{unknown:,} ids of users and histories are unknown to the model")


COMMANDS = {
    "recommend": Command(
        "list the items that a user, or every user, would most likely choose next", _arguments, _recommend
    )
}
