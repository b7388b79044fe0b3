"""A model's server: its endpoints, the batches of its requests, and its processes."""
