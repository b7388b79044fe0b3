"""Runs checks in parallel and prints their findings in list order."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from components.errors import KfrecError, explain_os_error
from pipelines.doctor.finding import MISSING, Check, Finding, P, missing

# A running server answers at once, a busy one within some seconds.
LONGEST = 60.0
_SUBJECT_WIDTH = 13


@dataclass
class _RunningCheck:
    thread: threading.Thread
    findings: list[Finding] = field(default_factory=list)
    defects: list[Exception] = field(default_factory=list)


def examine(checks: Sequence[Check[P]], place: P, debug: bool = False, longest: float = LONGEST) -> int:
    """Prints one line per finding and returns the number of MISSING ones.

    A check that fails or times out becomes a finding.

    Args:
        checks: to run.
        place: input of the checks.
        debug: re-raise an unexpected exception of a check after the last line.
        longest: timeout of a check, in seconds.
    """
    begun, lacking = time.monotonic(), 0
    started = [_start(check, place) for check in checks]
    for check, running in zip(checks, started, strict=True):
        running.thread.join(max(0.0, begun + longest - time.monotonic()))
        findings = list(running.findings)
        if running.thread.is_alive():
            findings.append(missing(f"no answer within {longest:.0f} s", "check that its server is running"))
        for finding in findings:
            print(line(check.subject, finding), flush=True)
            lacking += finding.state == MISSING
    for defect in (defect for running in started for defect in running.defects if debug):
        raise defect
    return lacking


def line(subject: str, finding: Finding) -> str:
    """State, subject, finding and remedy."""
    text = f"{finding.found}; {finding.remedy}" if finding.remedy else finding.found
    return f"{finding.state:<7}  {subject:<{_SUBJECT_WIDTH}}  {' '.join(text.split())}"


def _start(check: Check[P], place: P) -> _RunningCheck:
    def run() -> None:
        try:
            running.findings.extend(check.run(place))
        except KfrecError as error:
            running.findings.append(Finding(MISSING, str(error)))
        except ModuleNotFoundError as error:
            running.findings.append(
                missing(f"the package {error.name} is not installed", "install kfrec with all its extras (make setup)")
            )
        except Exception as error:
            text = explain_os_error(error) if isinstance(error, OSError) else None
            if text is not None:
                running.findings.append(Finding(MISSING, str(text)))
                return
            running.defects.append(error)
            running.findings.append(
                missing(f"this check failed ({type(error).__name__}: {error})", "see kfrec --debug doctor")
            )

    # A daemon thread that still waits for a server does not keep the interpreter alive.
    running = _RunningCheck(threading.Thread(target=run, daemon=True))
    running.thread.start()
    return running
