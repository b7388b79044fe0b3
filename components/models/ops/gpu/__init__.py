"""The hot operations on a GPU, behind the signatures of their definitions.

Where XLA compiles, they are written so that it fuses what is element-wise; where it does not, so that few and large
operations are launched. Each gives what its definition gives, but for the order in which sums are added up.
"""
