"""Hyperparameter search: local trials, or a Katib Experiment on a cluster."""
