"""Shared preprocessing: NVTabular workflows on local or Dask workers, and text files in blocks."""
