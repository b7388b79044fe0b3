"""The pipeline definitions and the ``kfrec`` command."""
