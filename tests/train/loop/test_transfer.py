"""A batch that travels to a GPU as one tensor; without one, a part of the same way."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from components.models.ops.choice import as_with_gpu
from components.train.loop.ranks import Alone
from components.train.loop.transfer import Packed, Shared, transfer
from tests.train.dataset import LONG, samples
from tests.train.loop.table_models import Trained, batch
from tests.train.loop.test_training_step import make_step
from tests.waiting import LONGEST

# Prints where the packed batch is, and which operations each device ran.
SENT = """
import json
import numpy as np, tensorflow as tf
from tensorflow.python.eager import context
from components.train.loop.transfer import Packed
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
packed = Packed({"label": tf.TensorSpec([None], tf.int64), "x": tf.TensorSpec([None, 3], tf.float32)}, "CPU:1")
context.enable_run_metadata()
sent = packed.sent({"label": np.ones(16, np.int32), "x": np.ones([16, 3], np.float32)})
graphs = [graph for function in context.export_run_metadata().function_graphs for graph in function.partition_graphs]
print(json.dumps([sent.device[-5:], *(sorted(n.op for n in graph.node if n.op != "Const") for graph in graphs)]))
"""


def sim_batch(rows: int) -> dict[str, np.ndarray]:
    return {name: ids.astype(np.int32) for name, ids in samples(rows, seed=3).items()}


def rows_of(arrays: dict[str, np.ndarray], rows: int) -> dict[str, np.ndarray]:
    return {name: values[:rows] for name, values in arrays.items()}


def signature(
    arrays: dict[str, np.ndarray], samples: int | None = None, kind: tf.DType = tf.int64
) -> dict[str, tf.TensorSpec]:
    return {
        name: tf.TensorSpec([samples, *values.shape[1:]], tf.float32 if values.dtype == np.float32 else kind)
        for name, values in arrays.items()
    }


def odd_bits(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Ids and floats whose bits a computation would change: large ids are NaNs, small ones denormal."""
    floats = np.array([np.nan, -0.0, 1e-45, np.inf], np.float32)
    ids = np.array([2**31 - 1, 0x7F800001, 1, 0], np.int32)
    return {
        name: np.resize(floats if values.dtype == np.float32 else ids, values.shape) for name, values in arrays.items()
    }


@pytest.mark.parametrize("rows", [16, 5, 0])
@pytest.mark.parametrize("arrays", [sim_batch(16), batch(0), odd_bits(batch(0))], ids=["histories", "tables", "bits"])
def test_features_are_what_was_packed(arrays: dict[str, np.ndarray], rows: int) -> None:
    arrays = rows_of(arrays, rows)
    handed = Packed(signature(arrays))
    given = handed.sent(arrays)
    assert given.shape == [sum(values.size for values in arrays.values())] and handed.rows(given) == rows
    features = tf.function(handed.features, input_signature=[handed.signature], autograph=False)(given)
    assert set(features) == set(arrays)
    for name, values in arrays.items():
        floats = values.dtype == np.float32
        assert features[name].dtype == (tf.float32 if floats else tf.int64)
        found, sent = features[name].numpy(), values
        np.testing.assert_array_equal(*((found.view(np.int32), sent.view(np.int32)) if floats else (found, sent)))


def test_shapes_are_static_where_the_number_of_samples_is() -> None:
    arrays = batch(0)
    handed = Packed(signature(arrays, 24))
    traced = tf.function(handed.features, autograph=False).get_concrete_function(handed.signature)
    assert {name: spec.shape for name, spec in traced.structured_outputs.items()} == {
        name: [24, *values.shape[1:]] for name, values in arrays.items()
    }


@pytest.mark.slow
def test_the_features_are_joined_on_the_host_and_sent_as_one() -> None:
    # Two devices have to be there before TensorFlow begins; both are this CPU.
    done = subprocess.run([sys.executable, "-c", SENT], capture_output=True, text=True, timeout=LONGEST)
    assert done.returncode == 0, done.stderr[-2000:]
    device, *parts = json.loads(done.stdout)
    assert device == "CPU:1"
    assert sorted(parts) == [["ConcatV2", "_Arg", "_Arg", "_Send"], ["_Recv", "_Retval"]]


def test_the_device_decides() -> None:
    given = signature(batch(0))
    assert isinstance(transfer(given), Shared)
    with as_with_gpu():
        assert isinstance(transfer(given), Packed)


@pytest.mark.slow
@pytest.mark.parametrize("model_type", ["sim", "dlrm", "dcn_v2", "wide_and_deep"])
def test_a_step_of_packed_batches_has_the_losses_of_one_by_feature(tmp_path: Path, model_type: str) -> None:
    losses: list[np.ndarray] = []
    for way in (Shared, Packed):
        if model_type == "sim":
            step = make_step(tmp_path, Alone(), 64, model_type, way, lr="0.01", long_seq_length=str(LONG))
            handed = way(signature(sim_batch(1), kind=tf.int32))
            losses.append(np.array([step.run(handed.sent(sim_batch(rows))) for rows in (50, 7, 50)]))
        else:
            losses.append(Trained(Alone(), model_type, tmp_path, way).take(3))
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
