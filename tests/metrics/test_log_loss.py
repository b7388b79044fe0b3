import math

import numpy as np
import pytest

from components.metrics import log_loss


def test_log_loss_of_a_hand_made_case() -> None:
    assert log_loss(np.array([1, 0]), np.array([0.8, 0.4])) == pytest.approx(-(math.log(0.8) + math.log(0.6)) / 2)


def test_a_saturated_wrong_prediction_costs_a_finite_amount() -> None:
    assert log_loss(np.array([0]), np.array([1.0], np.float32)) == pytest.approx(-math.log(1e-7), rel=1e-3)
