"""Costs of small graphs, derived by hand."""

import pytest
import tensorflow as tf

from benchmarks.gpu_model.graph import flatten
from benchmarks.gpu_model.kernels import Launched, launched
from benchmarks.gpu_model.roofline import LAUNCH_SECONDS, Gpu, seconds

X = tf.TensorSpec([128, 64], tf.float32)
BYTES = 128 * 64 * 4


def kernels_of(body, *signature: tf.TensorSpec) -> Launched:
    return launched(flatten(tf.function(body, autograph=False).get_concrete_function(*signature)))


def kinds(step: Launched) -> list[list[str]]:
    return [[operation.type for operation in kernel.operations] for kernel in step.kernels]


def test_a_product_reads_both_operands_and_computes_two_operations_a_term():
    (kernel,) = kernels_of(tf.matmul, X, tf.TensorSpec([64, 16])).kernels
    assert (kernel.cost.read, kernel.cost.written) == (BYTES + 64 * 16 * 4, 128 * 16 * 4)
    assert kernel.cost.of_products == 2 * 128 * 64 * 16


def test_a_look_up_reads_the_rows_it_gives_and_not_the_table():
    table = tf.Variable(tf.zeros([10_000, 64]))
    step = kernels_of(lambda rows: tf.gather(table, rows), tf.TensorSpec([128], tf.int64))
    (kernel,) = step.kernels
    assert (kernel.cost.read, kernel.cost.written) == (BYTES + 128 * 8, BYTES)
    assert step.kept == 10_000 * 64 * 4 + 128 * 8


def test_what_only_changes_the_shape_or_splits_the_first_axis_launches_nothing():
    step = kernels_of(lambda x: tf.unstack(tf.reshape(x, [2, 64, 64]))[1] * 2.0, X)
    assert kinds(step) == [["Mul"]]


def test_a_part_of_a_flat_tensor_is_copied_unless_it_begins_and_ends_aligned():
    flat = tf.TensorSpec([128], tf.int64)  # of 8 elements in 64 bytes
    assert kinds(kernels_of(lambda x: x[8:24] + 1, flat)) == [["AddV2"]]
    for body in (lambda x: x[4:24] + 1, lambda x: x[8:20] + 1):
        assert kinds(kernels_of(body, flat)) == [["StridedSlice"], ["AddV2"]]


def test_what_the_host_sends_is_kept_and_no_launch():
    step = kernels_of(tf.add, X, tf.TensorSpec([64], tf.float32))
    assert sorted(step.sent) == [64 * 4, BYTES] and step.kept == BYTES + 64 * 4
    assert len(step.kernels) == 1


def test_what_is_only_computed_with_shapes_is_not_counted():
    step = kernels_of(lambda x: tf.reshape(x, [tf.shape(x)[0] * 2, -1]) + 1.0, X)
    assert kinds(step) == [["AddV2"]]


def test_a_predicate_that_the_host_must_know_is_counted():
    def body(x):
        return tf.cond(tf.reduce_any(x > 0), lambda: x * 2.0, lambda: x)

    assert flatten(tf.function(body, autograph=False).get_concrete_function(X)).conditions == 1


def test_xla_fuses_elementwise_operations_and_the_reduction_of_them():
    @tf.function(jit_compile=True)
    def compiled(x):
        return tf.reduce_sum(tf.sigmoid(tf.matmul(x, x, transpose_b=True) + 1.0) * 2.0, -1)

    product, fusion = kernels_of(lambda x: compiled(x), X).kernels
    assert [operation.type for operation in product.operations] == ["MatMul"]
    assert {operation.type for operation in fusion.operations} == {"AddV2", "Sigmoid", "Mul", "Sum"}
    assert (fusion.cost.read, fusion.cost.written) == (128 * 128 * 4 + 2 * 4, 128 * 4)  # with the constants 1 and 2


def test_a_fusion_does_not_contain_what_waits_for_a_product_of_it():
    @tf.function(jit_compile=True)
    def compiled(x):
        left = x * 2.0
        return left + tf.matmul(left, tf.ones([64, 64]))

    assert kinds(kernels_of(lambda x: compiled(x), X)) == [["Mul"], ["MatMul"], ["AddV2"]]


def test_without_xla_nothing_is_fused():
    assert kinds(kernels_of(lambda x: tf.sigmoid(x) * 2.0, X)) == [["Sigmoid"], ["Mul"]]


def test_a_buffer_is_in_use_from_its_first_to_its_last_use_and_may_be_written_over():
    # exp(x) is needed until the product; 1 + exp(x) is written over by its square root.
    def body(x):
        exponential = tf.exp(x)
        return tf.matmul(tf.sqrt(exponential + 1.0), exponential, transpose_a=True)

    step = kernels_of(body, X)
    assert step.kept == BYTES
    assert step.peak == BYTES + 2 * BYTES + 64 * 64 * 4


def test_the_roof_is_the_slower_of_moving_computing_and_launching():
    kernels = kernels_of(tf.matmul, X, tf.TensorSpec([64, 16])).kernels
    moved, flops = kernels[0].cost.moved, kernels[0].cost.of_products
    assert seconds(kernels, Gpu("", moved / 3, flops, 1)) == pytest.approx(3)
    assert seconds(kernels, Gpu("", moved, flops / 4, 1)) == pytest.approx(4)
    assert seconds(kernels, Gpu("", 1e30, 1e30, 1)) == pytest.approx(LAUNCH_SECONDS)
