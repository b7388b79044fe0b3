"""Selects the implementation of an operation: its TensorFlow definition, or the back end of the device."""

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
_GPU = "components.models.ops.gpu"
_on_gpu = ContextVar("gpu_back_end", default=False)
_compiled = ContextVar("compiled", default=False)
_pretends = ContextVar("pretends_to_have_a_gpu", default=False)


def has_gpu() -> bool:
    """Whether a GPU is visible."""
    return _pretends.get() or bool(tf.config.get_visible_devices("GPU"))


@contextmanager
def as_with_gpu() -> Iterator[None]:
    """Functions traced within are traced as on a machine with a GPU."""
    token = _pretends.set(True)
    try:
        yield
    finally:
        _pretends.reset(token)


@contextmanager
def training_back_end(compiled: bool = False) -> Iterator[None]:
    """Functions traced within use the GPU's back end, where a GPU is visible."""
    tokens = _on_gpu.set(has_gpu()), _compiled.set(compiled)
    try:
        yield
    finally:
        _on_gpu.reset(tokens[0])
        _compiled.reset(tokens[1])


def is_compiled() -> bool:
    """Whether XLA compiles the current trace."""
    return _compiled.get()


def fused(function: Callable[P, T]) -> Callable[P, T]:
    """Declares a memory-bound part of the update, which XLA fuses into few kernels on a GPU.

    Unfused, each operation launches a kernel that reads its operands and writes its result. A function within an
    XLA-compiled one is not compiled separately.

    Args:
        function: takes tensors, lists of tensors, and None.
    """

    def traced(*args: P.args, **kwargs: P.kwargs) -> T:
        with training_back_end(compiled=True):
            return function(*args, **kwargs)

    as_one = tf.function(wraps(function)(traced), jit_compile=True, autograph=False)

    @wraps(function)
    def chosen(*args: P.args, **kwargs: P.kwargs) -> T:
        of_a_gpu = _on_gpu.get() and not _compiled.get()
        result: T = as_one(*args, **kwargs) if of_a_gpu else function(*args, **kwargs)
        return result

    return chosen


def operation(gpu: str | None = None) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Declares an operation's TensorFlow definition and its back end of the same signature.

    The operation's name is the name scope, so that profiles show it.

    Args:
        gpu: a function of ``components.models.ops.gpu``. It returns NotImplemented for arguments that it does not
            support; the definition then runs.
    """

    def declare(definition: Callable[P, T]) -> Callable[P, T]:
        @wraps(definition)
        def chosen(*args: P.args, **kwargs: P.kwargs) -> T:
            with tf.name_scope(definition.__name__):
                if gpu and _on_gpu.get():
                    result: T = getattr(import_module(_GPU), gpu)(*args, **kwargs)
                    if result is not NotImplemented:
                        return result
                return definition(*args, **kwargs)

        return chosen

    return declare
