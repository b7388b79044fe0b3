"""Generates the reference pages of the docs; ``make reference`` writes them."""
