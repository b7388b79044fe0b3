"""The hot operations of models and optimizers.

Each has one TensorFlow definition, used by exported models and on a GPU, where XLA compiles it. ``host/`` has back ends
of the same signature for float32 training on a CPU; ``gpu/`` has that of the look-up, whose gradient XLA cannot mend.
``components.models.ops.choice`` selects one.
"""
