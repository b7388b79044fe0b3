"""The steps of the workflow, one folder each, and what they share."""
