"""Columns of integers from and to parquet, several times as fast as with the general reader and writer."""
