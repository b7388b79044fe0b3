"""Columns of integers from parquet, at twice the speed of the general reader."""
