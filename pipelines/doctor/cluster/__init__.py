"""What a cluster needs for ``kfrec submit`` and ``kfrec schedule``."""
