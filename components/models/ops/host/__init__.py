"""The CPU back ends of the hot operations: compiled kernels, up to twice as fast as TensorFlow's operations.

They run only in float32 training without a GPU; elsewhere, and in exported models, TensorFlow's operations run.
"""
