"""Checks of a cluster for ``kfrec submit``."""
