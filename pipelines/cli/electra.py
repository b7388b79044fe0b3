"""Commands for published weights of ELECTRA: ``kfrec import-electra`` and ``kfrec export-electra``."""

from __future__ import annotations

import argparse
from pathlib import Path

from components.errors import KfrecError
from pipelines.cli.options import Command, add_tracked_workdir, output_of, run_of_model


def _import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", metavar="FOLDER", help="vocab.txt with config.json and model.safetensors, or with a checkpoint"
    )
    parser.add_argument("--generator", metavar="FOLDER", help="the model's generator, to go on with its pre-training")
    parser.add_argument("--output", required=True, metavar="MODEL", help="new folder of the model")


def _import(options: argparse.Namespace) -> int:
    from components.text.published import import_published, is_published

    folder, generator = Path(options.folder), Path(options.generator) if options.generator else None
    for given in (folder, *([generator] if generator else [])):
        if not is_published(given):
            raise KfrecError(
                f"{given}: has no published weights; name a folder with vocab.txt, config.json and model.safetensors"
            )
    sizes = import_published(folder, Path(options.output), generator)
    settings = " ".join(f"--set {name}={value}" for name, value in sizes.items())
    model = options.output
    print(f"{model}: train with --set warm_start_path={model} --set workflow={model} {settings}")
    return 0


def _export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a run's name or folder, last, or the folder of a model")
    parser.add_argument("--output", required=True, metavar="FOLDER", help="new folder of the files")
    add_tracked_workdir(parser)


def _export(options: argparse.Namespace) -> int:
    from components.artifacts.folder import open_artifact
    from components.feature_spec import load_feature_spec
    from components.models.encoder import heads_of
    from components.text.published import export_published
    from components.train.loop.warm_start import has_weights, weights_of

    run = run_of_model(options, options.model)
    folder = Path(options.model if run is None else output_of(run, "train", "model"))
    if not has_weights(folder):
        raise KfrecError(f"{folder}: has no model; name a run, or the folder of a model")
    weights = {name: weight.read() for name, weight in weights_of(folder).items()}
    heads = heads_of(open_artifact(folder).parameters)
    export_published(weights, load_feature_spec(folder), heads, Path(options.output))
    print(options.output)
    return 0


COMMANDS = {
    "export-electra": Command(
        "write a trained ELECTRA in the layout of the transformers package", _export_arguments, _export
    ),
    "import-electra": Command("make a model of published weights of ELECTRA", _import_arguments, _import),
}
