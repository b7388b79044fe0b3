"""One rank's training: data, steps, metrics, epochs, and the checkpoints that it begins from and leaves."""
