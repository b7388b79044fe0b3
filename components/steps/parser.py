"""Command lines that report mistakes in one line."""

from __future__ import annotations

import argparse
import difflib
import locale
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from components.parameters import Parameter, parameters_of
from components.secrets import without_password

if TYPE_CHECKING:
    from components.steps.catalog import Step


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
        near = difflib.get_close_matches(unknown, self._option_string_actions, n=1)
        return f"unknown argument {unknown}" + (f", perhaps {near[0]}" if near else "")


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
