"""The hot operations of models and optimizers.

Each has one TensorFlow definition; ``gpu`` has a back end of the look-up, whose gradient XLA cannot mend.
``components.models.ops.choice`` selects it.
"""
