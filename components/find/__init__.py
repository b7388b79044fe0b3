"""The find step: the newest data version under a prefix, and whether a model should be trained on it."""
