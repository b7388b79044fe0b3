"""Where an operation runs: by its TensorFlow definition or, on a host, by kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from importlib import import_module
from typing import ParamSpec, TypeVar

import tensorflow as tf

P = ParamSpec("P")
T = TypeVar("T")
_HOST = "components.models.ops.host"
_on_host = ContextVar("host_back_end", default=False)


@contextmanager
def host_back_end(allowed: bool = True) -> Iterator[None]:
    """Functions traced within run operations by the kernels of the host, if no GPU is visible.

    Such functions cannot be exported or compiled by XLA.
    """
    token = _on_host.set(allowed and not tf.config.get_visible_devices("GPU"))
    try:
        yield
    finally:
        _on_host.reset(token)


def operation(back_end: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Declares a TensorFlow definition that has a host back end of the same signature.

    Args:
        back_end: ``module.function`` in ``components.models.ops.host``. The function returns NotImplemented for
            arguments that its kernels do not support, such as float16; the definition then takes them.
    """
    module, _, name = back_end.rpartition(".")

    def declare(definition: Callable[P, T]) -> Callable[P, T]:
        @wraps(definition)
        def chosen(*args: P.args, **kwargs: P.kwargs) -> T:
            if _on_host.get():
                result: T = getattr(import_module(f"{_HOST}.{module}"), name)(*args, **kwargs)
                if result is not NotImplemented:
                    return result
            return definition(*args, **kwargs)

        return chosen

    return declare
