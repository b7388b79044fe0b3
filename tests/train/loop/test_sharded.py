"""Training over sharded tables: real ranks follow the curve of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.train.loop.ranks import Alone, Ranks
from components.train.loop.warm_start import warm_start
from tests.train.loop import table_models
from tests.train.loop.sharded import STEPS, train
from tests.train.loop.table_models import LATER, MODELS, SPEC, Trained
from tests.train.ranks import on_ranks

pytestmark = pytest.mark.slow

# A table of each kind; tables/kind, the smallest, is replicated.
MIXED = {"tables/city": "rows", "tables/tags": "rank", "embedding_tables": "columns"}
CURVE = {"mixed": (MIXED, "adam", False, STEPS, False)}
OTHERS = {
    "lazy": (MIXED, "lazy_adam", False, 20, False),
    "amp": (MIXED, "sgd", True, 20, False),
    "whole": ({}, "sgd", True, 20, False),
    "half": ({}, "sgd", True, 20, True),
}


def rank_main(ranks: Ranks, folder: Path, cases: Mapping[str, tuple[Mapping[str, str], str, bool, int, bool]]) -> None:
    """What a rank does."""
    for name, case in cases.items():
        np.savez(folder / f"{name}-{ranks.rank}.npz", allow_pickle=False, **train(ranks, *case))
    if ranks.size == 2:
        table_models.main(ranks, folder)


@pytest.fixture(scope="module")
def alone() -> dict[str, np.ndarray]:
    return train(Alone(), {}, "adam")


def prepare(folder: Path) -> Sequence[Any]:
    return [CURVE | OTHERS]


@pytest.fixture(scope="module")
def trained(two_ranks: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """What two and four ranks wrote."""
    four = tmp_path_factory.mktemp("four")
    on_ranks(4, "gloo", f"{__name__}:rank_main", four, CURVE)
    return {2: two_ranks / __name__, 4: four}


@pytest.mark.parametrize("size", [2, 4])
def test_sharded_tables_follow_the_loss_curve_of_whole_ones_over_a_hundred_steps(
    size: int, alone: dict[str, np.ndarray], trained: dict[int, Path]
) -> None:
    assert alone["losses"][-10:].mean() < 0.7 * alone["losses"][:10].mean()
    for rank in range(size):
        found = dict(np.load(trained[size] / f"mixed-{rank}.npz"))
        np.testing.assert_allclose(found["losses"], alone["losses"], atol=1e-5, rtol=0)
        for name in (name for name in alone if name not in ("losses", "sent")):
            expected = alone[name]
            if f"{name}_part" in found:
                first, step, begin, end = found[f"{name}_part"]
                expected = expected[first::step, begin:end][: len(found[name])]
            np.testing.assert_allclose(found[name], expected, atol=1e-5)


@pytest.mark.parametrize("name", OTHERS)
def test_mixed_precision_and_other_optimizers_train_sharded_tables(name: str, trained: dict[int, Path]) -> None:
    _, optimizer, amp, steps, _ = OTHERS[name]
    expected = train(Alone(), {}, optimizer, amp, steps)["losses"]
    found = np.load(trained[2] / f"{name}-0.npz")["losses"]
    np.testing.assert_allclose(found, expected, atol=2e-2 if amp else 1e-5, rtol=0)


def test_gradients_in_half_precision_send_half_the_bytes(trained: dict[int, Path]) -> None:
    whole, half = (np.load(trained[2] / f"{name}-0.npz")["sent"] for name in ("whole", "half"))
    assert 0.45 * whole < half < 0.55 * whole


@pytest.mark.parametrize("model_type", MODELS)
def test_a_model_of_tables_trains_divided_as_whole_and_goes_on_alone(
    model_type: str, trained: dict[int, Path], tmp_path: Path
) -> None:
    alone = Trained(Alone(), model_type, tmp_path)
    losses = [np.load(trained[2] / f"{model_type}-{rank}.npz")["losses"] for rank in range(2)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    np.testing.assert_allclose(losses[0], alone.take(table_models.STEPS), atol=1e-5, rtol=0)
    # One rank restores what two saved in parts.
    resumed = Trained(Alone(), model_type, trained[2] / model_type)
    resumed.restore()
    np.testing.assert_allclose(resumed.take(LATER), alone.take(LATER), atol=1e-5, rtol=0)


@pytest.mark.parametrize("model_type", MODELS)
def test_sharded_tables_start_from_an_earlier_model_as_whole_ones_do(
    model_type: str, trained: dict[int, Path], tmp_path: Path
) -> None:
    earlier = trained[2] / f"{model_type}-earlier"
    model = Trained(Alone(), model_type, tmp_path).model
    drawn = [variable.numpy() for variable in model.variables]
    assert warm_start(str(earlier), earlier, model, SPEC).rows == sum(table.rows for table in model.tables.values())
    parts = [list(np.load(trained[2] / f"{model_type}-warm-{rank}.npz").values()) for rank in range(2)]
    for variable, before, *found in zip(model.variables, drawn, *parts, strict=True):
        whole = variable.numpy()
        assert not np.array_equal(whole, before)
        if found[0].shape == found[1].shape == whole.shape:
            expected = [whole, whole]
        elif found[0].shape[1:] == whole.shape[1:]:
            # By rows; the one table on one rank is on either.
            sizes = [len(part) for part in found]
            expected = [whole[rank::2] for rank in range(2)] if all(sizes) else [whole[:size] for size in sizes]
        else:
            expected = np.split(whole, 2, axis=1)
        for mine, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)
