"""What runs after what: the pipeline definitions and the ``kfrec`` command."""
