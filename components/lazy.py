"""Functions and classes that are imported when they are called."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Lazy:
    """Calls ``module:name``, imported at the call.

    Definitions are imported whenever kfrec starts; TensorFlow and pandas, which take seconds, are not.

    Examples:
        >>> Lazy("math:hypot")(3.0, 4.0)
        5.0
    """

    path: str

    def __call__(self, *arguments: Any) -> Any:
        module, _, name = self.path.partition(":")
        return getattr(import_module(module), name)(*arguments)
