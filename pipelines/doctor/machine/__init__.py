"""Checks of a machine for ``kfrec run``."""
