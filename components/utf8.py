"""UTF-8 for files, names and output, whatever the locale is."""

from __future__ import annotations

import locale
import os
import sys


def restart_in_utf8() -> None:
    """Starts this program again in Python's UTF-8 mode if the locale has another encoding; children inherit the mode.

    Reports, records and logs hold characters that other encodings lack. Call it first: what was done before is lost.
    """
    if os.environ.get("PYTHONUTF8") == "1":
        return  # Restarted already; an option such as -X utf8=0 may overrule it.
    if locale.getpreferredencoding(False).lower().replace("-", "") != "utf8":
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {"PYTHONUTF8": "1"})
