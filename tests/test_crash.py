"""Uncaught exceptions in one line."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from components import registry
from components.crash import describe_exception, describe_status, describe_traceback
from components.errors import KfrecError

_CODE = """
import json
import tensorflow as tf

text = '{'

def deep(n):
    if n:
        return deep(n - 1)
    return json.loads(text)

def without_message():
    raise ValueError

def chained():
    try:
        {}["price"]
    except KeyError as error:
        raise RuntimeError("no price\\nin line 3") from error

def asks_kfrec():
    from components.feature_spec import load_feature_spec
    load_feature_spec(3)

def broken_text():
    class Odd(Exception):
        def __str__(self):
            raise TypeError
    raise Odd

def long():
    raise ValueError("begin " + "x" * 5000 + " end")

@tf.function
def _wrong_shapes():
    return tf.matmul(tf.zeros([2, 2]), tf.zeros([3, 4]))

def traced():
    _wrong_shapes()

@tf.function
def _outside(place):
    return tf.gather(tf.zeros([50, 2]), place)

def in_graph():
    with tf.device("CPU:0"):
        _outside(tf.constant([100]))
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of an extension."""
    file = tmp_path / "site" / "shop.py"
    file.parent.mkdir()
    file.write_text(_CODE)
    spec = importlib.util.spec_from_file_location("shop", file)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    monkeypatch.setattr("components.crash.is_of_extension", lambda path: path == str(file))
    return made


def described(call: Callable[[], object]) -> str:
    with pytest.raises(Exception) as raised:
        call()
    told = describe_exception(raised.value)
    assert "\n" not in told
    return told


def line_of(package: ModuleType, code: str) -> str:
    (line,) = (n for n, text in enumerate(_CODE.splitlines(), 1) if text.strip() == code)
    return f"{package.__file__}:{line}"


def test_the_innermost_line_of_the_extension_is_named_not_that_of_the_library(package: ModuleType) -> None:
    told = described(lambda: package.deep(40))
    assert told == (
        "JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1), at "
        f"{line_of(package, 'return json.loads(text)')} in deep"
    )


def test_an_exception_without_a_message_is_its_type(package: ModuleType) -> None:
    place = f"{line_of(package, 'raise ValueError')} in without_message"
    assert described(package.without_message) == f"ValueError, at {place}"


def test_an_exception_that_was_raised_from_another_names_both(package: ModuleType) -> None:
    told = described(package.chained)
    assert told.startswith("RuntimeError: no price in line 3, at ") and told.endswith("; raised from KeyError: 'price'")


def test_a_mistake_that_ends_in_kfrec_names_the_line_that_led_there(package: ModuleType) -> None:
    told = described(package.asks_kfrec)
    assert "components/feature_spec/" in told
    assert told.endswith(f", called at {line_of(package, 'load_feature_spec(3)')} in asks_kfrec")


def test_an_exception_that_cannot_be_shown_is_still_named(package: ModuleType) -> None:
    assert described(package.broken_text).startswith("Odd: its message cannot be shown, at ")


def test_a_long_message_keeps_its_begin_and_its_end(package: ModuleType) -> None:
    told = described(package.long)
    assert told.startswith("ValueError: begin xx") and "xx end, at" in told and len(told) < 600


def test_tensorflow_names_the_line_that_it_traced(package: ModuleType) -> None:
    told = described(package.traced)
    assert told.startswith("ValueError: Dimensions must be equal, but are 2 and 3")
    assert told.endswith(
        f", at {line_of(package, 'return tf.matmul(tf.zeros([2, 2]), tf.zeros([3, 4]))')} in _wrong_shapes"
    )


def test_tensorflow_names_the_line_of_an_operation_that_failed(package: ModuleType) -> None:
    told = described(package.in_graph)
    assert told.startswith("InvalidArgumentError: indices[0] = 100 is not in [0, 50), at ")
    assert told.endswith(f"{line_of(package, 'return tf.gather(tf.zeros([50, 2]), place)')} in _outside")


def test_the_output_of_a_process_tells_the_exception_that_ended_it() -> None:
    code = (
        "def f():\n    raise KeyError('x')\n"
        "try:\n    f()\nexcept KeyError as error:\n    raise RuntimeError('the last') from error"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    noise = ["I tensorflow: before", *done.stderr.splitlines(), "W tensorflow: after"]
    assert describe_traceback(noise) == "RuntimeError: the last, at <string>:6 in <module>"
    assert describe_traceback([f"    {line}" for line in done.stderr.splitlines()]).startswith("RuntimeError: the last")
    ignored = ["Exception ignored in: <function f>", "Traceback (most recent call last):", "ValueError: later"]
    assert describe_traceback([*noise, *ignored]).startswith("RuntimeError: the last")
    assert describe_traceback(["nothing", "here"]) == ""


@pytest.mark.parametrize("status", [-signal.SIGKILL, 128 + signal.SIGKILL])
def test_a_process_that_was_killed_probably_lacked_memory(status: int) -> None:
    assert "probably because the memory" in describe_status(status)


@pytest.mark.parametrize("status", [1, 3, -signal.SIGSEGV, 128 + signal.SIGABRT, 255])
def test_no_other_end_is_taken_for_too_little_memory(status: int) -> None:
    assert "memory" not in describe_status(status)


def test_a_package_that_fails_to_import_is_one_line_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.metadata import EntryPoint

    (tmp_path / "broken_shop.py").write_text("\nMODEL = undefined\n")
    monkeypatch.syspath_prepend(tmp_path)
    entry = EntryPoint("shop", "broken_shop:MODEL", registry.MODELS)
    for module in ("components.registry", "components.extensions"):
        monkeypatch.setattr(
            f"{module}.every_entry", lambda group: {"shop": [entry]} if group == registry.MODELS else {}
        )
    registry._entries.cache_clear()
    registry._load.cache_clear()
    with pytest.raises(KfrecError, match=r"NameError: name 'undefined' is not defined, at .*broken_shop\.py:2"):
        registry.model("shop")
    registry._entries.cache_clear()
    registry._load.cache_clear()
