"""One module per stage of the workflow; each runs in a separate process."""
