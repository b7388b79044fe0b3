"""What a machine needs for ``kfrec run``."""
