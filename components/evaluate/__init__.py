"""Scores the test split with the trained model and reports its metrics."""
