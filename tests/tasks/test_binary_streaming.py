import numpy as np
import pytest
import tensorflow as tf

from components.metrics import roc_auc
from components.tasks.binary.streaming import BINS, BinaryMetrics, bins
from tests.binary import update


def histogram(labels: np.ndarray, logits: np.ndarray) -> np.ndarray:
    counted = BinaryMetrics(with_loss=False)
    update(counted, tf.constant(labels, tf.float32), tf.constant(logits, tf.float32))
    return counted.counts.numpy()


def auc_of(labels: np.ndarray, logits: np.ndarray) -> tuple[float, float]:
    found = BinaryMetrics(with_loss=False).result([histogram(labels, logits)])
    return found["auc"], found["auc_error_bound"]


@pytest.mark.parametrize("scale", [0.01, 1.0, 10.0])
def test_the_exact_auc_lies_within_the_stated_bound_below_1e_4(scale: float) -> None:
    random = np.random.default_rng(1)
    labels = random.integers(0, 2, 200_000)
    logits = ((random.normal(size=labels.size) + labels) * scale).astype(np.float32)
    found, bound = auc_of(labels, logits)
    assert abs(found - roc_auc(labels, logits)) <= bound < 1e-4


def test_four_samples_by_hand() -> None:
    # Pairs (positive, negative): 2>1, 2>-3, -1<1, -1>-3: three of four in order.
    assert auc_of(np.array([1, 0, 1, 0]), np.array([2.0, 1.0, -1.0, -3.0]))[0] == 0.75


def test_equal_logits_count_half() -> None:
    assert auc_of(np.array([1, 0]), np.array([0.5, 0.5])) == (0.5, 0.5)


def test_histograms_of_two_ranks_add_up() -> None:
    random = np.random.default_rng(2)
    labels, logits = random.integers(0, 2, 100), random.normal(size=100)
    halves = histogram(labels[:40], logits[:40]) + histogram(labels[40:], logits[40:])
    np.testing.assert_array_equal(halves, histogram(labels, logits))


def test_bins_grow_with_the_logit_to_the_ends_of_float32() -> None:
    logits = np.array([-np.inf, -1e30, -65, -1, -1e-3, -1e-30, 0.0, 1e-30, 1e-3, 1, 65, 1e30, np.inf], np.float32)
    found = bins(tf.constant(logits)).numpy()
    assert (np.diff(found) >= 0).all() and found[0] == 0 and found[-1] == BINS - 1


def test_one_class_has_no_auc() -> None:
    assert np.isnan(auc_of(np.ones(3), np.zeros(3))[0])
