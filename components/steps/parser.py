"""Command lines that report mistakes in one line."""

from __future__ import annotations

import argparse
import difflib
import locale
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from components.parameters import Parameter, parameters_of
from components.secrets import without_password

if TYPE_CHECKING:
    from components.steps.catalog import Step

# The value of an option, or of NAME=VALUE, that an environment variable holds.
_HELD = re.compile(r"(?P<before>(?:[\w-]+=)*)\$\{(?P<name>\w+)\}")


class Parser(argparse.ArgumentParser):
    """An argument parser that reports a mistake in one line instead of its usage, and accepts no abbreviations.

    Args:
        shown_as: location of the mistake in the message, such as a step's name; empty names none.
    """

    def __init__(self, *, shown_as: str = "", **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self._shown_as = shown_as

    def parse_known_args(self, *args: Any, **options: Any) -> Any:
        """As in argparse; a subcommand reports unknown arguments itself, because it knows the nearest option."""
        namespace, unknown = super().parse_known_args(*args, **options)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return namespace, unknown

    def error(self, message: str) -> NoReturn:
        """Ends the process with status 2."""
        prefix = f"{self._shown_as}: " if self._shown_as else ""
        mended = self._mended(without_password(message))
        print(f"error: {prefix}{mended}; see {self.prog} --help", file=sys.stderr, flush=True)
        sys.exit(2)

    def _mended(self, message: str) -> str:
        """The message, with the nearest option where one is unknown."""
        lead, _, rest = message.partition("unrecognized arguments: ")
        if lead or not rest:
            return message
        unknown = rest.split()[0].partition("=")[0]
        if not unknown:
            return f"unknown argument {rest.split()[0]}; write NAME=VALUE without blanks"
        near = difflib.get_close_matches(unknown, self._option_string_actions, n=1)
        return f"unknown argument {unknown}" + (f", perhaps {near[0]}" if near else "")


def words_of(arguments: Sequence[str] | None, report: Parser) -> list[str]:
    """The words of a command line, those of this process if there are none.

    A value ``${NAME}`` stands for the environment variable NAME. A shell leaves it alone between single quotes, so that
    other users of the machine, who see the arguments of every process, do not see the value.

    Args:
        report: ends the process if a variable is not set.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None and (seen := [word for word in words if without_password(word) != word]):
        print(
            f"note: every user of this machine sees the password in {without_password(seen[0])}; put the value into an "
            "environment variable, such as SOURCE, and give '${SOURCE}' in its place",
            file=sys.stderr,
        )
    for index, word in enumerate(words):
        if held := _HELD.fullmatch(word):
            if held["name"] not in os.environ:
                report.error(f"{word}: the environment variable {held['name']} is not set")
            words[index] = held["before"] + os.environ[held["name"]]
    return words


def chosen(step: Step, arguments: Sequence[str]) -> dict[str, str]:
    """The values, or the defaults, of the parameters that select further parameters of a step."""
    defaults = {parameter.name: parameter.default for parameter in parameters_of(step.own)}
    choice = {name: str(defaults[name]) for name in step.chosen_by}
    for index, argument in enumerate(arguments):
        name, equals, value = argument.removeprefix("--").partition("=")
        if argument.startswith("--") and name in choice:
            choice[name] = value if equals else next(iter(arguments[index + 1 : index + 2]), choice[name])
    return choice


def add_argument(group: argparse._ArgumentGroup, parameter: Parameter) -> None:
    """Adds one parameter under its own and its pipeline-wide name; a switch may stand alone, or take a value."""
    flag = dict(nargs="?", const="true") if parameter.value_type is bool else {}
    group.add_argument(
        *(f"--{name}" for name in dict.fromkeys((parameter.name, parameter.pipeline_name, parameter.also)) if name),
        dest=parameter.name,
        metavar=parameter.plain_type.__name__.upper(),
        help=parameter.description.replace("%", "%%"),
        **flag,  # type: ignore[arg-type]
    )


def restart_in_utf8() -> None:
    """Starts this program again in Python's UTF-8 mode if the locale has another encoding; children inherit the mode.

    Reports, records and logs hold characters that other encodings lack. Call it first: what was done before is lost.
    """
    if os.environ.get("PYTHONUTF8") == "1":
        return  # Restarted already; an option such as -X utf8=0 may overrule it.
    if locale.getpreferredencoding(False).lower().replace("-", "") != "utf8":
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {"PYTHONUTF8": "1"})
