"""The hot operations of models and optimizers.

Each has one TensorFlow definition, which GPUs, XLA and exported models run, and a host back end of the same signature
in ``host/``, which training on a CPU runs in float32. :mod:`components.models.ops.choice` selects one.
"""
