"""What data sets make their samples with: NVTabular workflows on local or Dask workers, and text files in blocks."""
