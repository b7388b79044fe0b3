"""Checks of a cluster for ``kfrec submit`` and ``kfrec schedule``."""
