"""Uncaught exceptions of steps, in one line: type, message and the innermost line of kfrec or of an extension."""

from __future__ import annotations

import re
import signal
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from components.extensions import is_of_extension, is_own

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?')
_BEGIN = "Traceback (most recent call last):"
# Python writes a traceback after this line for an exception in a finalizer, which ends nothing.
_IGNORED = "Exception ignored in"
_LONGEST = 300
# Exit status of a shell whose command was ended by the signal n, less n.
_SHELL = 128


class Frame(NamedTuple):
    """A line of code that was executing."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f" in {self.function}" if self.function else "")


def describe_exception(error: BaseException) -> str:
    """An exception in one line.

    The line names its type, its message, the innermost line of kfrec or of an extension, the line of the extension that
    led there, and the exception that it was raised from.
    """
    frames = [
        Frame(frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append(Frame(error.filename, error.lineno or 0, ""))
    text = _text_of(error)
    line = _headline(type(error).__name__, text) + _location([*frames, *_frames(text.splitlines())])
    if error.__cause__ is not None:
        cause = error.__cause__
        line += f"; raised from {_headline(type(cause).__name__, _text_of(cause))}"
    return line


def describe_traceback(lines: Sequence[str]) -> str:
    """The last traceback in the output of a process, in one line; empty if there is none."""
    begins = [
        number for number, line in enumerate(lines) if _BEGIN in line and not (number and _IGNORED in lines[number - 1])
    ]
    for begin in reversed(begins):
        indent = len(lines[begin].partition(_BEGIN)[0])
        block = [line[indent:] for line in lines[begin + 1 :]]
        for number, line in enumerate(block):
            if line and not line[0].isspace():
                kind, _, text = line.partition(": ")
                return _headline(kind.rpartition(".")[2], text) + _location(_frames(block[:number]))
    return ""


def describe_status(status: int) -> str:
    """How a process ended that said nothing, from its exit status or that of its shell."""
    number = -status if status < 0 else status - _SHELL
    name = ""
    with suppress(ValueError):
        name = signal.Signals(number).name
    if number == signal.SIGKILL:
        return (
            "its process was killed (SIGKILL), probably because the memory of this machine or container did not "
            "suffice; give it more memory, or lower workers or the parameters that size its parts"
        )
    if name:
        return f"its process was ended by {name}, without an error message"
    return f"its process ended with status {status}, without an error message"


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # __str__ is the extension's code and may raise anything; the crash must be reported all the same
        return "its message cannot be shown"


def _headline(kind: str, text: str) -> str:
    """Type and message, shortened in the middle."""
    message = " ".join(_without_frames(text).removeprefix(f"{kind}: ").split())
    if len(message) > _LONGEST:
        message = f"{message[: _LONGEST // 2]} … {message[-_LONGEST // 2 :]}"
    return f"{kind}: {message}" if message else kind


def _without_frames(text: str) -> str:
    """A message of TensorFlow without the calls that it lists before its last paragraph, and without nodes' names."""
    lines = text.strip().splitlines()
    listed = [number for number, line in enumerate(lines) if _FRAME.match(line) or "<stack traces unavailable>" in line]
    if listed:
        lines = lines[listed[-1] + 1 :]
        blank = next((number for number, line in enumerate(lines) if not line.strip()), -1)
        lines = lines[blank + 1 :]
    return "\n".join(line for line in lines if "[[{{node" not in line).strip()


def _frames(lines: Iterable[str]) -> list[Frame]:
    matches = (_FRAME.match(line) for line in lines)
    return [Frame(match["file"], int(match["line"]), match["function"] or "") for match in matches if match]


def _location(frames: Sequence[Frame]) -> str:
    """The innermost line of kfrec or of an extension, else the innermost one at all."""
    own = [frame for frame in frames if is_own(frame.file)]
    theirs = [frame for frame in frames if is_of_extension(frame.file)]
    inner = next((frame for frame in reversed(frames) if frame in own or frame in theirs), None) or next(
        reversed(frames), None
    )
    if inner is None:
        return ""
    if theirs and inner != theirs[-1]:
        return f", at {inner}, called at {theirs[-1]}"
    return f", at {inner}"
