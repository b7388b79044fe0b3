"""The one exception whose message a user reads.

A ``KfrecError`` reports invalid input or a broken environment in one line: the file or parameter, the value, and
the remedy. Any other exception that leaves a step is a defect of kfrec or of an extension: the step writes its
traceback, and then one line with its type, message and place (``components.crash``).
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile

from components.secrets import without_password

_OS_REMEDIES = {
    errno.ENOSPC: "the disk is full; free some space or choose another folder",
    errno.EDQUOT: "the disk quota is used up; free some space or choose another folder",
    errno.EROFS: "the file system is read-only; choose another folder",
    errno.EACCES: "permission denied; choose a folder this user may write to",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
    errno.ELOOP: "its symbolic links form a loop; choose another folder",
    errno.ENOENT: "is not there and cannot be made there; check the path",
    errno.ENOTDIR: "a file stands where a folder is needed; choose another folder",
    errno.EEXIST: "a file stands where a folder is needed; choose another folder",
    errno.EPERM: "operation not permitted; choose a folder this user may write to",
}


_FULL_TEMPORARY = "the disk of temporary files is full; free some space, or point TMPDIR to another folder"
_LITTLE = 1 << 20  # bytes of a disk that is full, whose last blocks hold no more of a file
# OpenSSL's reason in the text of an error, and the words that tell reasons apart.
_REASON = re.compile(r"certificate verify failed: (.*?)(?: \(_ssl|['\"]|$)")
_UNTRUSTED = ("self-signed", "self signed", "unable to get")
_OF_ANOTHER = "mismatch"
_OUT_OF_DATE = ("expired", "not yet valid")

# Characters of a message: a value of the input may have millions.
_LONGEST = 2000


class KfrecError(Exception):
    """Invalid input, in one line that names the file or parameter, the value and the remedy; without passwords."""

    def __str__(self) -> str:
        text = without_password(super().__str__())
        half = _LONGEST // 2
        return text if len(text) <= _LONGEST else f"{text[:half]} ... {text[-half:]}"


class Unreachable(KfrecError):
    """A service did not answer for as long as its client waits: not the input's fault, and a later try may succeed."""


class WorkerCrashed(Exception):
    """A child process of a step ended by an uncaught exception or a signal; the message is one line."""


_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
# The number in the text of an error, all that shutil.copytree retains of it.
_NUMBER = re.compile(r"\[Errno (\d+)\]")


def _first_copy(error: shutil.Error) -> OSError:
    """The first of the errors that shutil.copytree has collected."""
    collected = error.args[0]
    if not isinstance(collected, list):
        return error
    source, target, reason = collected[0]
    if not (found := _NUMBER.match(reason)):
        return OSError(0, reason, target)
    number = int(found[1])
    return OSError(number, os.strerror(number), target if number in _OF_THE_DISK else source)


def _is_full(folder: str) -> bool:
    return shutil.disk_usage(folder).free < _LITTLE


def explain_os_error(error: OSError, path: object = None) -> KfrecError | None:
    """Turns an operating-system error into one line, or None where only a traceback can explain it.

    Args:
        path: the file or folder concerned, if the error itself names none.
    """
    if isinstance(error, shutil.Error):
        error = _first_copy(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT) and not error.filename and _is_full(tempfile.gettempdir()):
        return KfrecError(f"{tempfile.gettempdir()}: {_FULL_TEMPORARY}")
    remedy = _OS_REMEDIES.get(error.errno or 0)
    if remedy is None and error.filename and error.strerror:
        remedy = error.strerror[0].lower() + error.strerror[1:]
    if remedy is None:
        return None
    return KfrecError(f"{error.filename or path or 'output folder'}: {remedy}")


def certificate_problem(error: BaseException) -> str:
    """What is wrong with a server's certificate, and the remedy; empty if the error is of another kind.

    From Python 3.13 on a client checks certificates strictly by RFC 5280: a private authority's may lack an extension
    that earlier versions did not ask for.

    Args:
        error: of requests, urllib3, botocore or MLflow, whose text holds OpenSSL's reason.
    """
    found = _REASON.search(str(error))
    if not found:
        return ""
    reason = found[1]
    if any(word in reason for word in _UNTRUSTED):
        return "its certificate is not trusted; set REQUESTS_CA_BUNDLE to the file of its certificate authority"
    if _OF_ANOTHER in reason:
        return f"its certificate is of another host ({reason}); name the host as the certificate does"
    if any(word in reason for word in _OUT_OF_DATE):
        return f"{reason}; renew its certificate, or set the clock of this machine"
    return (
        f"its certificate is refused ({reason}); renew it and that of its authority with the extensions of RFC 5280 "
        "(keyUsage, subjectKeyIdentifier, authorityKeyIdentifier), or run kfrec on Python 3.12, which does not ask for "
        "them"
    )
