"""Training over divided tables: real ranks under Gloo and MPI follow the curve of one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from components.train.loop.ranks import Alone
from tests.train.loop.sharded import STEPS, train
from tests.train.ranks import on_ranks

pytestmark = pytest.mark.slow

# A table of each kind; tables/kind, the smallest, is replicated.
MIXED = {"tables/city": "rows", "tables/tags": "rank", "embedding_tables": "columns"}


@pytest.fixture(scope="module")
def alone() -> dict[str, np.ndarray]:
    return train(Alone(), {}, "adam")


@pytest.mark.parametrize(("size", "transport"), [(2, "gloo"), (2, "mpi"), (4, "gloo"), (4, "mpi")])
def test_divided_tables_follow_the_loss_curve_of_whole_ones_over_a_hundred_steps(
    size: int, transport: str, alone: dict[str, np.ndarray], tmp_path: Path
) -> None:
    on_ranks(size, transport, "tests.train.loop.sharded:main", tmp_path, {"mixed": (MIXED, "adam", False, STEPS)})
    assert alone["losses"][-10:].mean() < 0.7 * alone["losses"][:10].mean()
    for rank in range(size):
        found = dict(np.load(tmp_path / f"mixed-{rank}.npz"))
        np.testing.assert_allclose(found["losses"], alone["losses"], atol=1e-5, rtol=0)
        for name in (name for name in alone if name != "losses"):
            expected = alone[name]
            if f"{name}_part" in found:
                first, step, begin, end = found[f"{name}_part"]
                expected = expected[first::step, begin:end][: len(found[name])]
            np.testing.assert_allclose(found[name], expected, atol=1e-5)


def test_mixed_precision_and_other_optimizers_train_divided_tables(tmp_path: Path) -> None:
    cases = {"lazy": (MIXED, "lazy_adam", False, 20), "amp": (MIXED, "sgd", True, 20)}
    on_ranks(2, "gloo", "tests.train.loop.sharded:main", tmp_path, cases)
    for name, (_, optimizer, amp, steps) in cases.items():
        expected = train(Alone(), {}, optimizer, amp, steps)["losses"]
        found = np.load(tmp_path / f"{name}-0.npz")["losses"]
        np.testing.assert_allclose(found, expected, atol=2e-2 if amp else 1e-5, rtol=0)
