"""Cost model of a training step on a GPU, counted from its graph; no GPU is needed, and none is measured."""
