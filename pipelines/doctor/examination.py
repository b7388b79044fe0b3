"""Runs checks in parallel and prints their findings in list order, one line each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from components.errors import KfrecError, explain_os_error
from components.secrets import without_password

OK, MISSING, NOTE = "ok", "missing", "note"

P = TypeVar("P")
# A running server answers at once, a busy one within some seconds.
LONGEST = 60.0
_SUBJECT_WIDTH = 13


@dataclass(frozen=True)
class Finding:
    """One line.

    Attributes:
        state: OK; MISSING if kfrec cannot work; NOTE if it can, with a remark.
        remedy: may be empty.
    """

    state: str
    message: str
    remedy: str = ""


@dataclass(frozen=True)
class Check(Generic[P]):
    """One subject.

    Attributes:
        subject: a word or two at the beginning of the line.
        run: maps the input to findings; a KfrecError counts as MISSING.
    """

    subject: str
    run: Callable[[P], Iterable[Finding]]


def ok(message: str) -> Finding:
    return Finding(OK, message)


def missing(message: str, remedy: str = "") -> Finding:
    return Finding(MISSING, message, remedy)


def note(message: str, remedy: str = "") -> Finding:
    return Finding(NOTE, message, remedy)


@dataclass
class _RunningCheck:
    thread: threading.Thread
    findings: list[Finding] = field(default_factory=list)
    defects: list[Exception] = field(default_factory=list)


def examine(checks: Sequence[Check[P]], subject: P, fine: str, debug: bool = False, longest: float = LONGEST) -> int:
    """Prints one line per finding and a conclusion; returns the exit status: 0, or 1 if something is MISSING.

    A check that fails or times out becomes a finding.

    Args:
        fine: the conclusion if nothing is missing.
        debug: re-raise an unexpected exception of a check after the last line.
        longest: timeout of all checks, in seconds.
    """
    begun, lacking = time.monotonic(), 0
    started = [_start(check, subject) for check in checks]
    for check, running in zip(checks, started, strict=True):
        running.thread.join(max(0.0, begun + longest - time.monotonic()))
        findings = list(running.findings)
        if running.thread.is_alive():
            findings.append(missing(f"no answer within {longest:.0f} s", "check that its server is running"))
        for finding in findings:
            text = f"{finding.message}; {finding.remedy}" if finding.remedy else finding.message
            shown = without_password(" ".join(text.split()))
            print(f"{finding.state:<7}  {check.subject:<{_SUBJECT_WIDTH}}  {shown}", flush=True)
            lacking += finding.state == MISSING
    for defect in (defect for running in started for defect in running.defects if debug):
        raise defect
    print(f"\n{lacking} missing: see the remedies above" if lacking else f"\n{fine}")
    return 1 if lacking else 0


def _start(check: Check[P], subject: P) -> _RunningCheck:
    def run() -> None:
        try:
            running.findings.extend(check.run(subject))
        except KfrecError as error:
            running.findings.append(missing(str(error)))
        except ModuleNotFoundError as error:
            running.findings.append(
                missing(f"the package {error.name} is not installed", "install kfrec with all its extras (make setup)")
            )
        except Exception as error:
            text = explain_os_error(error) if isinstance(error, OSError) else None
            if text is not None:
                running.findings.append(missing(str(text)))
                return
            running.defects.append(error)
            running.findings.append(
                missing(f"this check failed ({type(error).__name__}: {error})", "see kfrec --debug doctor")
            )

    # A daemon thread that still waits for a server does not keep the interpreter alive.
    running = _RunningCheck(threading.Thread(target=run, daemon=True))
    running.thread.start()
    return running
