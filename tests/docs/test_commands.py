"""The commands that the documents show are those that kfrec has: names, options, parameters, models."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from components import registry
from components.errors import KfrecError
from components.parameters import build
from components.steps.catalog import STEPS, worker_parameters
from components.steps.command import argument_parser
from components.steps.parser import chosen
from components.train import worker
from pipelines.chain import chain_of
from pipelines.cli import parser
from pipelines.cli.options import pipeline_of
from pipelines.parameters import parse_assignment, pipeline_parameters
from pipelines.reference import commands
from tests.docs.commands import ROOT, Shown, commands_of, shown
from tests.pipelines.chains import chain_parameters
from tests.pipelines.installed import PACKAGES

SHOWN = shown()
# Stand for a name of the reader's, or belong to a package that the pages write.
_PLACEHOLDERS = {"NAME", "gru4rec", "trip_time"}


def told(command: Shown) -> str:
    return f"{command.page}: {' '.join(command.words)}"


@pytest.mark.parametrize("command", [each for each in SHOWN if each.words[0] == "kfrec"], ids=told)
def test_a_kfrec_command_parses(command: Shown) -> None:
    check_kfrec(command)


@pytest.mark.parametrize("command", [each for each in SHOWN if each.words[0] == "python"], ids=told)
def test_a_command_of_a_step_parses(command: Shown) -> None:
    check_step(command)


@pytest.mark.parametrize("command", [each for each in SHOWN if each.words[0] == "make"], ids=told)
def test_a_make_target_exists(command: Shown) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {each for each in command.words[1:] if "=" not in each} <= {*targets}


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_what_python_blocks_import_exists(page: Path) -> None:
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("components"):
                module = importlib.import_module(str(node.module))
                assert all(hasattr(module, name.name) for name in node.names), ast.unparse(node)


@pytest.mark.parametrize(
    "package", [*sorted(PACKAGES.iterdir()), ROOT / "docs" / "examples" / "gru4rec"], ids=lambda package: package.name
)
def test_the_packages_import_what_the_python_reference_lists(package: Path) -> None:
    page = (ROOT / "docs" / "python.md").read_text()
    listed = {
        (module, name) for module, _, name in (path.rpartition(".") for path in re.findall(r"(?m)^::: (\S+)$", page))
    }
    listed |= {
        (module, name.strip())
        for module, names in re.findall(r"`from (\S+) import ([^`]+)`", page)
        for name in names.split(",")
    }
    for file in package.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("components", "pipelines")):
                assert {(node.module, name.name) for name in node.names} <= listed, f"{file}: {ast.unparse(node)}"


def test_the_generated_page_of_commands_is_up_to_date() -> None:
    assert (ROOT / "docs" / "commands.md").read_text() == commands.reference(), "stale: run make reference"


@pytest.mark.parametrize(
    "line",
    [
        "kfrec trian",
        "kfrec run --modle sim",
        "kfrec run --model simm",
        "kfrec run --set epoch=3",
        "kfrec run --set epochs=many",
        "kfrec predict MODEL",
        "kfrec submit --endpoint URL --set wrokers=8",
    ],
)
def test_a_wrong_kfrec_command_is_noticed(line: str) -> None:
    (command,) = commands_of("page", f"    {line}")
    with pytest.raises((SystemExit, KfrecError)):
        check_kfrec(command)


@pytest.mark.parametrize(
    "line",
    [
        "python -m components.trian --tfrecord A --model B",
        "python -m components.train --model B",
        "python -m components.train --tfrecord A --model B --epoch 3",
        "python -m components.train --tfrecord A --model B --epochs many",
        "python -m components.train.worker --dataset_dir A --model_type simm",
    ],
)
def test_a_wrong_command_of_a_step_is_noticed(line: str) -> None:
    (command,) = commands_of("page", f"    {line}")
    with pytest.raises((SystemExit, KfrecError, ImportError)):
        check_step(command)


def test_commands_are_found_in_blocks_and_sentences() -> None:
    block = "    kfrec compare A \\\n      B | less  # both\n"
    text = f"Use `kfrec run --model\nsim`.\n\n{block}\n```\n$ make run\n```\nOr kfrec.\n"
    found = [(each.words, each.is_mention) for each in commands_of("page", text)]
    assert found == [
        (("kfrec", "compare", "A", "B"), False),
        (("make", "run"), False),
        (("kfrec", "run", "--model", "sim"), True),
    ]


def check_kfrec(command: Shown) -> None:
    """Parses a command of ``kfrec``, and checks the names and values that it gives."""
    names = commands.commands_of(parser())
    words = command.words[1:]
    if command.is_mention and len(words) <= 1:
        assert not words or words[0] in {*names, "--help"}, f"kfrec has no command {words[0]}"
        return
    if command.is_mention and words[0] in names and words[-1].startswith("--"):  # an option without its value
        assert words[-1] in names[words[0]].format_help()
        return
    options = parser().parse_args(words)
    given = vars(options)
    for option, group in (("dataset", registry.DATASETS), ("task", registry.TASKS)):
        if given.get(option) and given[option] not in _PLACEHOLDERS:
            assert given[option] in registry.names(group), given[option]
    if words[0] in ("run", "submit", "compile", "parameters") and (given["model"] or "NAME") not in _PLACEHOLDERS:
        registry.model(given["model"])
        if given.get("set"):
            pipeline = pipeline_of(options)
            known = pipeline_parameters(pipeline)
            if given.get("after"):
                known = chain_parameters(chain_of(given["after"], pipeline))
            for name, value in map(parse_assignment, options.set):
                if (name, value) not in (("name", "value"), ("NAME", "VALUE")):
                    if name not in known:
                        raise KfrecError(f"no parameter {name}")
                    known[name].parse(value)


def check_step(command: Shown) -> None:
    """Parses ``python -m components.<step>`` or ``components.train.worker``, and checks the values that it gives."""
    module, arguments = command.words[2], list(command.words[3:])
    name = module.removeprefix("components.")
    if command.is_mention and not arguments:
        importlib.import_module(f"{module}.__main__" if not module.endswith("worker") else module)
    elif name == "train.worker":
        choice = chosen(STEPS["train"], arguments)
        options = vars(worker._parser(choice).parse_args(arguments))
        del options["dataset_dir"]
        build(worker_parameters(**choice), {key: value for key, value in options.items() if value is not None})
    elif name in STEPS:
        step = STEPS[name]
        choice = chosen(step, arguments)
        options = vars(argument_parser(step, choice).parse_args(arguments))
        values = {key: value for key, value in options.items() if value is not None}
        known = {each for each in values if each not in {*step.inputs, *step.outputs, "debug"}}
        build(step.parameters(choice), {key: values[key] for key in known})
    elif name == "feature_spec":
        importlib.import_module(f"{module}.__main__").parser().parse_args(arguments)
    else:  # takes folders alone
        if hasattr(importlib.import_module(module), "__path__"):
            importlib.import_module(f"{module}.__main__")
        assert not [word for word in arguments if word.startswith("-")]
