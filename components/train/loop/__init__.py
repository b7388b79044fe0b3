"""One rank's training: data, steps, metrics, epochs."""
