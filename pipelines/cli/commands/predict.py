"""``kfrec predict``: scores for a file of raw rows."""

from __future__ import annotations

import argparse
from pathlib import Path

from components.parameters import parameters_of
from components.steps.catalog import PredictParameters
from components.temporary import temporary_folder
from pipelines.cli.options import (
    REGISTERED_OR_FOLDER,
    add_tracked_workdir,
    input_file,
    output_of,
    run_of_model,
    use_store_of,
)

SUMMARY = "score a file of raw rows"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help=REGISTERED_OR_FOLDER)
    parser.add_argument("--input", required=True, metavar="FILE", help="*.parquet, *.csv[.gz] or *.jsonl[.gz]")
    parser.add_argument("--output", required=True, metavar="FILE", help="the same, with the scores")
    (batch,) = (p for p in parameters_of(PredictParameters) if p.name == "prediction_batch_size")
    parser.add_argument("--batch-size", default=batch.default, metavar="N", help="rows at a time (default %(default)s)")
    add_tracked_workdir(parser)


def execute(options: argparse.Namespace) -> int:
    from components.predict.formats import rows_file
    from components.predict.model import named_model
    from components.predict.scoring import replacing, score_file

    use_store_of(options)
    source, target = input_file("--input", options.input), Path(options.output)
    (size,) = (p for p in parameters_of(PredictParameters) if p.name == "prediction_batch_size")
    rows = size.parse(options.batch_size)
    rows_file(target)
    run = run_of_model(options, options.model)
    with (
        temporary_folder(),
        named_model(output_of(run, "train", "model") if run else options.model) as named,
        replacing(target, [source], named.raw.outputs) as partial,
    ):
        counts = score_file(named.raw, rows_file(source), partial, rows_file(target), rows, f"scoring {source.name}")
    print(f"{named.description}: {counts.summary}\n{target}")
    return 0
