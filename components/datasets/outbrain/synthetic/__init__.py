"""Synthetic displays in the format of the public files, with known probabilities of a click."""

from components.datasets.outbrain.synthetic.files import write_synthetic

__all__ = ["write_synthetic"]
