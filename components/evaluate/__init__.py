"""Scores the test split with the trained model and says how good the model is."""
