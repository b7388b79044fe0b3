"""Scores of raw rows, with a registered model or a folder of one."""
