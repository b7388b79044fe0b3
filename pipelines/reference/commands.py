"""The command reference of the docs, generated from the parsers: ``python -m pipelines.reference.commands``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator

from components.steps.catalog import STEPS, Step
from pipelines.cli import COMMANDS, parser

_HEAD = """# Commands

Generated from the command lines by `make reference`; do not edit.

`kfrec` is `.venv/bin/kfrec`. Invalid input ends with exit status 2 and one line that begins with `error:`; `--debug`
before the command shows the traceback. `kfrec COMMAND --help` shows the same options as this page.
"""

_STEPS = """## The steps

Each step is also a command of its own, `python -m components.<step>`. It takes the folders below and the step's
parameters as options: [parameters](parameters.md).
"""


def reference() -> str:
    summaries = {name: command.summary for name, command in COMMANDS.items()}
    sections = [_HEAD, _table(("command", "what it does"), _links(summaries))]
    for name, own in commands_of(parser()).items():
        sections.append(_command(f"kfrec {name}", own, summaries[name]))
    sections.append(_STEPS)
    sections += [_step(step) for step in STEPS.values()]
    return "\n".join(sections)


def commands_of(made: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Name to parser of the subcommands of ``made``."""
    for action in made._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _links(summaries: dict[str, str]) -> Iterator[tuple[str, str]]:
    for name, summary in summaries.items():
        yield f"[`kfrec {name}`](#kfrec-{name})", summary


def _command(title: str, own: argparse.ArgumentParser, summary: str, level: str = "##") -> str:
    """The section of a command, followed by those of its subcommands."""
    parts = [f"{level} {title}", "", summary[0].upper() + summary[1:] + ".", ""]
    inner = commands_of(own)
    if inner:
        helps = {choice.dest: choice.help or "" for action in own._actions for choice in _choices(action)}
        parts += [_command(f"{title} {name}", each, helps[name], f"{level}#") for name, each in inner.items()]
        return "\n".join(parts)
    actions = [action for action in own._actions if not isinstance(action, argparse._HelpAction)]
    needed = [_usage(action) for action in actions if action.required]
    options = ["[options]"] if len(needed) < len(actions) else []
    parts += [f"    {' '.join([title, *needed, *options])}", ""]
    if actions:
        formatter = own._get_formatter()
        rows = ((f"`{_spelling(action)}`", formatter._expand_help(action) if action.help else "") for action in actions)
        parts.append(_table(("argument", "meaning"), rows))
    if own.epilog:
        parts += [own.epilog, ""]
    return "\n".join(parts)


def _choices(action: argparse.Action) -> Iterable[argparse.Action]:
    return action._choices_actions if isinstance(action, argparse._SubParsersAction) else ()


def _spelling(action: argparse.Action) -> str:
    """An argument as a user types it, with the short form first."""
    value = "" if action.nargs == 0 else _value(action)
    if not action.option_strings:
        return value
    return ", ".join(action.option_strings) + (f" {value}" if value else "")


def _usage(action: argparse.Action) -> str:
    """A required argument in the usage line."""
    return f"{action.option_strings[-1]} {_value(action)}" if action.option_strings else _value(action)


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    return "|".join(map(str, action.choices)) if action.choices else action.dest.upper()


def _step(step: Step) -> str:
    folders = {**step.inputs, **step.outputs}
    usage = " ".join([f"python -m components.{step.name}", *(f"--{name} FOLDER" for name in folders), "[options]"])
    rows = [(f"`--{name} FOLDER`", f"reads: {text}") for name, text in step.inputs.items()]
    rows += [(f"`--{name} FOLDER`", f"writes: {text}") for name, text in step.outputs.items()]
    return f"### {step.name}\n\n{step.summary}\n\n    {usage}\n\n{_table(('folder', 'meaning'), rows)}"


def _table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    cells = [tuple(cell.replace("|", "\\|") for cell in row) for row in (head, *rows)]
    first, *rest = [f"| {left} | {right} |" for left, right in cells]
    return "\n".join([first, "|---|---|", *rest, ""])


if __name__ == "__main__":
    sys.stdout.write(reference())
