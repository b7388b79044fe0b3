"""A model may have other defaults of the train step's parameters than the catalog."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from components.errors import KfrecError
from components.parameters import build, joined, param, parameters_of


@dataclass(frozen=True)
class Loop:
    epochs: int = param(3, "Passes", at_least=1)
    batch: int = param(10, "Samples", at_least=1)


@dataclass(frozen=True)
class Model:
    width: int = param(4, "Floats", at_least=1)


def test_the_other_default_holds_and_the_bounds_stay() -> None:
    group = joined(Model, Loop, defaults=(("epochs", 20),))
    assert {parameter.name: parameter.default for parameter in parameters_of(group)} == {
        "epochs": 20, "batch": 10, "width": 4
    }  # fmt: skip
    assert build(group, {}).epochs == 20
    with pytest.raises(KfrecError, match="epochs=0 must be at least 1"):
        build(group, {"epochs": 0})


def test_a_default_of_no_parameter_is_refused() -> None:
    with pytest.raises(KfrecError, match="no parameter epoch is declared"):
        joined(Model, Loop, defaults=(("epoch", 20),))
