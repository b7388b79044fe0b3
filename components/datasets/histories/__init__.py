"""What all data sets of users' histories share: pool, negatives, splits, encoding, samples."""
