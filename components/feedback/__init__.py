"""What came of served rows: their labels, the training rows made of them, and the model's live quality."""
