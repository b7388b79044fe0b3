import tensorflow as tf

from components.models.ops.choice import as_with_gpu, fused, training_back_end


def test_on_a_gpu_it_is_one_call_unless_xla_compiles_all_around():
    @fused
    def twice(x):
        return (x + x) * 1.0

    kinds = {}
    for compiled in (False, True):
        with as_with_gpu(), training_back_end(compiled):
            graph = tf.function(lambda: twice(tf.constant(1.0)), autograph=False).get_concrete_function().graph
        kinds[compiled] = {operation.type for operation in graph.get_operations()}
    assert "AddV2" not in kinds[False] and "AddV2" in kinds[True]
