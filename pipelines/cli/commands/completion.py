"""``kfrec completion``: a script that completes commands, options, models and folders in a shell."""

from __future__ import annotations

import argparse

from components import registry
from components.errors import KfrecError

SUMMARY = "write a shell's completion script"
_SHELLS = ("bash", "zsh", "tcsh")
_NAMES = {"--model": registry.MODELS, "--dataset": registry.DATASETS, "--task": registry.TASKS}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=_SHELLS, help="one of %(choices)s")


def execute(options: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError:
        raise KfrecError("kfrec completion needs shtab; install kfrec[completion]") from None
    from pipelines.cli import parser

    command = parser()
    completions = {"FOLDER": shtab.DIRECTORY, "FILE": shtab.FILE}
    for action in _actions(command):
        if action.metavar in completions:
            action.complete = completions[action.metavar]  # type: ignore[attr-defined]
        for option in action.option_strings:
            if option in _NAMES:
                action.choices = registry.names(_NAMES[option])
    print(shtab.complete(command, options.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The actions of a parser and of its commands."""
    actions = list(parser._actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            actions += [each for command in action.choices.values() for each in _actions(command)]
    return actions
