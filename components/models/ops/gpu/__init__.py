"""The GPU back ends of the hot operations, with the signatures of their definitions.

Under XLA, element-wise operations fuse; without it, each launches few, large operations. Results equal those of the
definitions up to the summation order.
"""
