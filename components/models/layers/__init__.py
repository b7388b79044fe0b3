"""The parts models are made of, one concept a module."""
