"""``kfrec recommend``: the items that a user would most likely choose next."""

from __future__ import annotations

import argparse
from pathlib import Path

from components.errors import KfrecError
from components.steps.catalog import REGISTERED_MODEL
from pipelines.cli.options import REGISTERED_OR_FOLDER, add_tracked_workdir, input_file, use_store_of

SUMMARY = "list the items that a user would most likely choose next"
_CHAMPION = f"{REGISTERED_MODEL.default}@champion"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("user", metavar="USER", help="id of the user")
    parser.add_argument(
        "--model", default=_CHAMPION, metavar="MODEL", help=f"{REGISTERED_OR_FOLDER} (default %(default)s)"
    )
    parser.add_argument("--top", type=int, default=20, metavar="N", help="items to list (default %(default)s)")
    parser.add_argument("--history", metavar="A,B,...", help="the user's items, oldest first (default: of the data)")
    parser.add_argument("--data", default="", metavar="FOLDER", help="records with the user's history")
    parser.add_argument("--candidates", metavar="FILE", help="file with items to choose from (default: all items)")
    parser.add_argument("--output", metavar="FILE", help="also write the list to this file")
    add_tracked_workdir(parser)


def execute(options: argparse.Namespace) -> int:
    from components.predict.formats import rows_file, writing
    from components.predict.history import history_of
    from components.predict.model import named_model
    from components.predict.recommend import candidates_in, every_candidate, recommend
    from components.predict.scoring import replacing

    use_store_of(options)
    if options.top < 1:
        raise KfrecError(f"--top {options.top} is below 1; give the number of items to list")
    if not options.user.strip():
        raise KfrecError("the user's id is empty; give one (is a shell variable unset?)")
    source = input_file("--candidates", options.candidates) if options.candidates is not None else None
    target = Path(options.output) if options.output is not None else None
    if target is not None:
        rows_file(target)
    with named_model(options.model) as named:
        candidates = candidates_in(source, named.raw) if source else every_candidate(named.raw)
        if options.history is not None:
            history: list[str | None] = [item.strip() for item in options.history.split(",") if item.strip()]
        else:
            history = history_of(options.user, options.data or named.data)
        found, unknown = recommend(named.raw, options.user, history, candidates, options.top)
        if target is not None:
            with (
                replacing(target, [source] if source else [], named.raw.outputs) as partial,
                writing(partial, rows_file(target)) as writer,
            ):
                for batch in found.to_batches():
                    writer.write(batch)
    print(f"{named.description}: {len(candidates):,} candidates for {options.user} after {len(history)} items")
    if unknown:
        print(f"{unknown} ids of the user and the history are unknown to the model")
    names = found.column_names[:3]
    rows = [[str(row["rank"]), str(row[names[1]]), f"{row[names[2]]:.4f}"] for row in found.to_pylist()]
    widths = [max(len(line[place]) for line in [names, *rows]) for place in range(3)]
    for line in [names, *rows]:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
    return 0
