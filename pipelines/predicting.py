"""The commands that use a model: ``kfrec predict``, ``kfrec recommend`` and ``kfrec serve-manifest``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from components.errors import KfrecError
from components.steps.catalog import REGISTERED_MODEL, PredictParameters
from components.steps.parameter import parameters_of

_CHAMPION = f"{REGISTERED_MODEL.default}@champion"
_MODEL = "name@alias or name/version of a registered model, or the folder that the train step wrote"


def add_commands(
    commands: Any,
    add_workdir: Callable[[argparse.ArgumentParser], None],
    use_store_of: Callable[[argparse.Namespace], None],
) -> None:
    """Adds the commands.

    Args:
        commands: subparsers of ``kfrec``.
        add_workdir: adds the options that choose MLflow's store.
        use_store_of: applies them.
    """
    predict = commands.add_parser("predict", help="score a file of raw rows")
    predict.add_argument("model", metavar="MODEL", help=_MODEL)
    predict.add_argument("--input", required=True, metavar="FILE", help="*.parquet, *.csv[.gz] or *.jsonl[.gz]")
    predict.add_argument("--output", required=True, metavar="FILE", help="the same, with the scores")
    (batch,) = (p for p in parameters_of(PredictParameters) if p.name == "prediction_batch_size")
    predict.add_argument(
        "--batch-size", default=batch.default, metavar="N", help="rows at a time (default %(default)s)"
    )
    add_workdir(predict)
    predict.set_defaults(action=_with_store(_predict, use_store_of))

    recommend = commands.add_parser("recommend", help="list the items that a user would most likely choose next")
    recommend.add_argument("user", metavar="USER", help="id of the user")
    recommend.add_argument("--model", default=_CHAMPION, metavar="MODEL", help=f"{_MODEL} (default %(default)s)")
    recommend.add_argument("--top", type=int, default=20, metavar="N", help="items to list (default %(default)s)")
    recommend.add_argument("--history", metavar="A,B,...", help="the user's items, oldest first (default: of the data)")
    recommend.add_argument("--data", default="", metavar="FOLDER", help="records with the user's history")
    recommend.add_argument("--candidates", metavar="FILE", help="file with items to choose from (default: all items)")
    recommend.add_argument("--output", metavar="FILE", help="also write the list to this file")
    add_workdir(recommend)
    recommend.set_defaults(action=_with_store(_recommend, use_store_of))

    serve = commands.add_parser("serve-manifest", help="write a KServe InferenceService for a registered model")
    serve.add_argument("model", metavar="MODEL", help="name@alias or name/version; an alias becomes its version now")
    serve.add_argument("--name", default="kfrec", help="of the InferenceService (default %(default)s)")
    serve.add_argument(
        "--registry",
        default=os.environ.get("KFREC_REGISTRY", ""),
        metavar="PREFIX",
        help="prefix of the image's name (default: the environment variable KFREC_REGISTRY)",
    )
    add_workdir(serve)
    serve.set_defaults(action=_with_store(_serve_manifest, use_store_of))


def _with_store(
    action: Callable[[argparse.Namespace], int], use_store_of: Callable[[argparse.Namespace], None]
) -> Callable[[argparse.Namespace], int]:
    def act(options: argparse.Namespace) -> int:
        use_store_of(options)
        return action(options)

    return act


def _predict(options: argparse.Namespace) -> int:
    from components.predict.formats import rows_file
    from components.predict.model import named_model
    from components.predict.scoring import replacing, score_file

    source, target = _input("--input", options.input), Path(options.output)
    (size,) = (p for p in parameters_of(PredictParameters) if p.name == "prediction_batch_size")
    rows = size.parse(options.batch_size)
    rows_file(target)
    with (
        named_model(options.model) as named,
        replacing(target, [source], named.raw.outputs) as partial,
    ):
        counts = score_file(named.raw, rows_file(source), partial, rows_file(target), rows, f"scoring {source.name}")
    print(f"{named.told}: {counts.told}\n{target}")
    return 0


def _recommend(options: argparse.Namespace) -> int:
    from components.predict.formats import rows_file, writing
    from components.predict.history import history_of
    from components.predict.model import named_model
    from components.predict.recommend import candidates_in, every_candidate, recommend
    from components.predict.scoring import replacing

    if options.top < 1:
        raise KfrecError(f"--top {options.top} is below 1; give the number of items to list")
    if not options.user.strip():
        raise KfrecError("the user's id is empty; give one (is a shell variable unset?)")
    source = _input("--candidates", options.candidates) if options.candidates is not None else None
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
    print(f"{named.told}: {len(candidates):,} candidates for {options.user} after {len(history)} items")
    if unknown:
        print(f"{unknown} ids of the user and the history are unknown to the model")
    names = found.column_names[:3]
    rows = [[str(row["rank"]), str(row[names[1]]), f"{row[names[2]]:.4f}"] for row in found.to_pylist()]
    widths = [max(len(line[place]) for line in [names, *rows]) for place in range(3)]
    for line in [names, *rows]:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
    return 0


def _serve_manifest(options: argparse.Namespace) -> int:
    from components.predict.model import version_of
    from pipelines.serving import rendered

    held = version_of(options.model)
    print(rendered(held.name, str(held.version), options.name, options.registry), end="")
    return 0


def _input(option: str, named: str) -> Path:
    """A file that is read, checked before the model is loaded.

    Raises:
        KfrecError: it is not there, or of no known format.
    """
    from components.predict.formats import rows_file

    if not named.strip():
        raise KfrecError(f"{option} is empty; name a file (is a shell variable unset?)")
    path = Path(named)
    rows_file(path)
    if not path.is_file():
        raise KfrecError(f"{named}: no such file; check the path")
    return path
