"""What a step of SIM costs on a GPU may fall, and not rise."""

import pytest

from benchmarks.gpu_model.kernels import launched
from benchmarks.gpu_model.trace import PRECISIONS, Precision, traced

LIMITS = {  # launches, GB moved, GB at the peak, predicates that go to the host
    "float32": (387, 107.9, 14.0, 0),
    "AMP": (463, 59.1, 7.4, 0),
    "AMP, XLA": (460, 62.7, 8.3, 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS, ids=lambda precision: precision.name)
def test_a_step_launches_and_moves_no_more_than_it_did(precision: Precision):
    graph = traced(precision)
    step = launched(graph)
    launches, moved, peak, predicates = LIMITS[precision.name]
    assert sum(kernel.cost.launches for kernel in step.kernels) <= launches
    assert sum(kernel.cost.moved for kernel in step.kernels) / 1e9 <= moved
    assert step.peak / 1e9 <= peak
    assert graph.conditions <= predicates
