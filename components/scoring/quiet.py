"""TensorFlow without what it says on standard error while it is imported.

Since 2.21 it writes its notes on the processor before its log is set up, whatever ``TF_CPP_MIN_LOG_LEVEL`` says. An
import that fails raises its error as ever.
"""

from __future__ import annotations

import os
import sys


def import_tensorflow() -> None:
    """Imports TensorFlow, unless it has been."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if "tensorflow" in sys.modules:
        return
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        import tensorflow  # noqa: F401
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
