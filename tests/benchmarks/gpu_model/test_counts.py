"""What a step of SIM costs on a GPU may fall, and not rise."""

import pytest

from benchmarks.gpu_model.kernels import launched
from benchmarks.gpu_model.trace import PRECISIONS, Precision, traced

# The second copy is the position of the batch, 8 bytes.
LIMITS = {  # launches, GB moved, GB at the peak, predicates that go to the host, copies from it and their MB
    "float32": (1132, 190.0, 14.2, 0, 2, 117.5),
    "AMP": (1334, 107.5, 7.6, 0, 2, 117.5),
    "AMP, XLA": (586, 63.1, 8.0, 0, 2, 117.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS, ids=lambda precision: precision.name)
def test_a_step_launches_and_moves_no_more_than_it_did(precision: Precision):
    graph = traced(precision)
    step = launched(graph)
    launches, moved, peak, predicates, copies, copied = LIMITS[precision.name]
    assert sum(kernel.cost.launches for kernel in step.kernels) <= launches
    assert sum(kernel.cost.moved for kernel in step.kernels) / 1e9 <= moved
    assert step.peak / 1e9 <= peak
    assert graph.conditions <= predicates
    assert len(step.sent) <= copies
    assert sum(step.sent) / 1e6 <= copied
