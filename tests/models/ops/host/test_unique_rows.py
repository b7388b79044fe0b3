import numpy as np
import pytest
import tensorflow as tf

from components.models.ops.host import host
from components.models.ops.host.unique_rows import unique_rows


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_the_rows_that_groups_name_are_found_once_and_ascending(
    kind: type, threads: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(host, "threads", lambda: threads)
    random = np.random.default_rng(3)
    groups: list[np.ndarray] = [
        random.integers(0, 90, shape).astype(kind) for shape in ((7, 4, 2), (7, 0, 2), (20_000,))
    ]
    found, places = unique_rows([tf.constant(group) for group in groups], 100)
    assert found.dtype == kind
    np.testing.assert_array_equal(found, np.unique(np.concatenate([group.reshape(-1) for group in groups])))
    for group, numbers in zip(groups, places, strict=True):
        np.testing.assert_array_equal(found.numpy()[numbers], group)
