"""Steps under a loss scale, inside and outside a graph."""

import numpy as np
import pytest
import tensorflow as tf

from components.models import make_optimizer
from components.models.ops.scaling import Scaling, all_finite
from components.models.optimizers.groups import OptimizerGroup, Optimizers
from components.train.loop.loss_scale import GROWTH_STEPS, INITIAL, LossScale

START = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "f")
TRUE = np.array([[0.25, 2.0], [1.5, -0.5]], "f")
ROWS = [2, 0]


class Plain:
    """An optimizer that cannot skip a step by itself."""

    name, keeps_sparse = "plain", False

    def build(self, variables):
        self.steps = tf.Variable(0)

    def apply(self, pairs):
        self.steps.assign_add(1)
        for gradient, variable in pairs:
            variable.assign_sub(0.1 * tf.convert_to_tensor(gradient))


SETTINGS = {name: {"weight_decay": 0.25} for name in ("adam", "lazy_adam", "sgd")}


class Setting:
    """A variable, an optimizer and a loss scale; ``step`` takes gradients that are still scaled."""

    def __init__(self, name: str) -> None:
        self.variable = tf.Variable(START)
        self.optimizer = Plain() if name == "plain" else make_optimizer(name, 0.1, **SETTINGS.get(name, {}))
        self.rules = Optimizers([OptimizerGroup(self.optimizer, [self.variable])], [self.variable])
        self.scale = LossScale(True)
        self.step = tf.function(self._step)

    def _step(self, values: tf.Tensor) -> None:
        gradient = tf.IndexedSlices(values, tf.constant(ROWS), tf.constant([3, 2]))
        self.scale.apply([gradient], lambda scaling: self.rules.apply([(gradient, self.variable)], scaling))

    def state(self) -> list[np.ndarray]:
        kept = getattr(self.optimizer, "variables", [])
        # RMSProp's calls only say when it scales its state anew.
        return [self.variable.numpy(), *(v.numpy() for v in kept if not v.name.startswith("calls"))]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adam", "lazy_adam", "sgd", "ftrl", "rmsprop", "plain"])
@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_a_step_with_a_gradient_that_is_not_finite_changes_nothing_but_the_scale(name: str, broken: float):
    setting = Setting(name)
    for _ in range(2):  # before the first step and after one
        before, factor = setting.state(), float(setting.scale.factor)
        setting.step(tf.constant(TRUE * [[1.0, broken], [1.0, 1.0]], tf.float32))
        for new, old in zip(setting.state(), before, strict=True):
            np.testing.assert_array_equal(new, old)
        assert float(setting.scale.factor) == factor / 2
        setting.step(tf.constant(TRUE) * setting.scale.factor)


@pytest.mark.parametrize("name", ["adam", "lazy_adam", "sgd", "ftrl", "rmsprop", "plain"])
def test_a_good_step_is_one_with_gradients_of_their_true_size(name: str):
    setting, alone = Setting(name), Setting(name)
    setting.step(tf.constant(TRUE * INITIAL))
    alone.rules.apply([(tf.IndexedSlices(tf.constant(TRUE), tf.constant(ROWS), tf.constant([3, 2])), alone.variable)])
    for one, other in zip(setting.state(), alone.state(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)


def test_the_scale_doubles_after_many_good_steps_in_a_row():
    setting = Setting("sgd")
    setting.scale.good_steps.assign(GROWTH_STEPS - 2)
    setting.step(tf.constant(TRUE))
    assert float(setting.scale.factor) == INITIAL
    setting.step(tf.constant(TRUE))
    assert (float(setting.scale.factor), int(setting.scale.good_steps)) == (2 * INITIAL, 0)


def test_the_scale_never_falls_below_one():
    setting = Setting("sgd")
    setting.scale.factor.assign(1.0)
    setting.step(tf.fill([2, 2], np.float32("nan")))
    assert float(setting.scale.factor) == 1


def test_the_device_decides_and_the_host_does_not_wait_for_it():
    graph = Setting("adam").step.get_concrete_function(tf.TensorSpec([2, 2])).graph
    assert not {"If", "StatelessIf"} & {operation.type for operation in graph.get_operations()}


def test_without_mixed_precision_gradients_stay_as_they_are() -> None:
    scale = LossScale(False, 65_536.0)
    seen: list[Scaling] = []
    scale.apply([tf.constant(3.0)], seen.append)
    assert float(scale.value) == 1.0 and seen == [Scaling()]


@pytest.mark.parametrize("name", ["adam", "lazy_adam", "sgd", "ftrl", "rmsprop", "plain"])
def test_a_constant_scale_stays_at_an_overflow_and_applies_the_step(name: str) -> None:
    setting, alone = Setting(name), Setting(name)
    setting.scale = LossScale(True, 65_536.0)
    setting.step(tf.constant(TRUE * 65_536.0))
    alone.rules.apply([(tf.IndexedSlices(tf.constant(TRUE), tf.constant(ROWS), tf.constant([3, 2])), alone.variable)])
    for one, other in zip(setting.state(), alone.state(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)
    setting.step(tf.constant(TRUE * np.inf))
    assert not np.isfinite(setting.variable).all()
    assert float(setting.scale.value) == 65_536.0


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("broken", [np.nan, -np.inf])
def test_one_number_that_is_not_finite_is_found_in_any_gradient(large: bool, broken: float) -> None:
    numbers = np.zeros([1 << 19 if large else 3], "f")
    fine = [tf.zeros([2, 2]), tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([3, 2]))]
    assert all_finite([*fine, tf.constant(numbers)])
    numbers[-1] = broken
    assert not all_finite([*fine, tf.constant(numbers)])
    slices = tf.IndexedSlices(tf.constant(numbers[None]), tf.constant([0]), tf.constant([3, len(numbers)]))
    assert not all_finite([*fine, slices])
