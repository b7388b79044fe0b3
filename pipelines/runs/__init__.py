"""Runs on this machine after their start: their record, and what can be done with them later."""
