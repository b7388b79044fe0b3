"""The hot operations of models and optimizers.

Each has one TensorFlow definition, used by exported models, and back ends of the same signature: ``host/`` for float32
training on a CPU, and ``gpu/`` for training on a GPU. :mod:`components.models.ops.choice` selects one.
"""
