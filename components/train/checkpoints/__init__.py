"""Checkpoints to resume from, and warm starts from another model."""
