"""One module a stage of the workflow; each runs in a process of its own."""
