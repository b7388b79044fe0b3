"""Converts TensorFlow's write errors to OSError."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf

_KINDS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)


@contextmanager
def disk_errors(path: Path | str) -> Iterator[None]:
    """Raises OSError if TensorFlow fails to write because of an operating system error.

    Args:
        path: the file or folder being written, for the message.
    """
    try:
        yield
    except tf.errors.OpError as error:
        for kind in _KINDS:
            if os.strerror(kind) in error.message:
                raise OSError(kind, os.strerror(kind), str(path)) from error
        raise
