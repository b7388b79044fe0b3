"""What a training step costs on a GPU, counted in its graph; no GPU is needed, and none is measured."""
