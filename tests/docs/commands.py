"""The commands that the documents show, as words of a command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "benchmarks" / "history.md",
    *sorted(path for path in (ROOT / "docs").glob("*.md") if path.name != "commands.md"),  # generated from the parsers
)
# What ends a command within a line of a shell.
_ENDS = {"|", "||", "&&", ";", ">", ">>", "2>", "<", "&"}
_START = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S* )*(?:\.venv/bin/)?(kfrec|python -m components\.[\w.]+|make)(?= |$)")


class Shown(NamedTuple):
    """A command that a page shows.

    Attributes:
        page: file name of the page.
        words: of the command line.
        is_mention: whether it stands within a sentence, where it may lack its arguments.
    """

    page: str
    words: tuple[str, ...]
    is_mention: bool


def shown() -> list[Shown]:
    """The commands of all pages, each once."""
    return list(dict.fromkeys(each for page in PAGES for each in commands_of(page.name, page.read_text())))


def commands_of(page: str, text: str) -> Iterator[Shown]:
    """The commands in code blocks, whose lines may go on after a backslash, and in sentences."""
    block, prose = _divided(text)
    for line in block.replace("\\\n", " ").splitlines():
        yield from _commands(page, line.strip(), is_mention=False)
    for code in re.findall(r"`([^`]+)`", prose):
        yield from _commands(page, " ".join(code.split()), is_mention=True)


def _divided(text: str) -> tuple[str, str]:
    """The lines of code blocks, and the others."""
    lines: tuple[list[str], list[str]] = ([], [])
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        else:
            lines[0 if fenced or line.startswith("    ") else 1].append(line)
    return "\n".join(lines[0]), "\n".join(lines[1])


def _commands(page: str, line: str, *, is_mention: bool) -> Iterator[Shown]:
    if not _START.match(line) or re.search(r"(^| )\.\.\.( |$)", line):
        return
    words = [word for word in shlex.split(line, comments=True) if not re.match(r"[A-Z_]+=", word)]
    if words[0] == "$":
        del words[0]
    end = next((place for place, word in enumerate(words) if word in _ENDS), len(words))
    yield Shown(page, (Path(words[0]).name, *words[1:end]), is_mention)
