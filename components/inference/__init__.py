"""Scores and lists of raw rows and raw events, with a registered model or a folder of one."""
