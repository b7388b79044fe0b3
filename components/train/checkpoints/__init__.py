"""What a training can go on from, and what it may start from."""
