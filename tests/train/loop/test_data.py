"""Batches as a step takes them."""

import numpy as np
import pytest
import tensorflow as tf

from components.train.loop.data import id_type, tensors


@pytest.mark.parametrize(("gpus", "kind"), [([], tf.int32), (["gpu"], tf.int64)])
def test_ids_have_the_type_that_the_computing_device_works_with(
    monkeypatch: pytest.MonkeyPatch, gpus: list[str], kind: tf.DType
) -> None:
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: gpus)
    batch = tensors({"uid": np.array([1, 2], np.int32)})
    assert id_type() == batch["uid"].dtype == kind
    np.testing.assert_array_equal(batch["uid"], [1, 2])
