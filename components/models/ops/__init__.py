"""The hot operations of models and optimizers.

Each has one TensorFlow definition, which exported models run, and back ends of the same signature: in ``host/``, which
training on a CPU runs in float32, and in ``gpu/``, which training on a GPU runs. :mod:`components.models.ops.choice`
selects one.
"""
