"""The ``kfrec`` command. Every command imports all modules here, so slow imports belong inside functions."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from components import images
from components.errors import KfrecError, explain_os_error
from components.lifetime import Stopped, stopping_in_order
from components.steps.parser import Parser, restart_in_utf8, words_of
from pipelines.cli import cluster, electra, feedback, preparation, recommend, run, runs, serve, standing
from pipelines.cli.options import Command

_MODULES = (cluster, electra, feedback, preparation, recommend, run, runs, serve, standing)
COMMANDS: dict[str, Command] = dict(sorted(item for module in _MODULES for item in module.COMMANDS.items()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    if arguments is None:
        restart_in_utf8()
    command_line = parser()
    options = command_line.parse_args(words_of(arguments, command_line))
    try:
        with stopping_in_order(with_descendants=True):
            status = int(options.execute(options))
            sys.stdout.flush()
            return status
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KfrecError, OSError) as error:
        explained = explain_os_error(error) if isinstance(error, OSError) else error
        if options.debug or explained is None:
            raise
        print(f"error: {explained}", file=sys.stderr)
        return 2
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return 128 + stopped.number


def parser() -> Parser:
    """The command line, with all commands."""
    made = Parser(prog="kfrec", description="From raw logs to a trained, evaluated and registered model.")
    made.add_argument("--debug", action="store_true", help="show the traceback of an error")
    made.add_argument("--version", action="version", version=f"%(prog)s {images.VERSION}")
    made.set_defaults(parser=made)  # for kfrec completion
    commands = made.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        own = commands.add_parser(name, help=command.summary, epilog=command.epilog or None)
        command.add_arguments(own)
        own.set_defaults(execute=command.execute)
    return made
