"""Raw files to samples, by the workflow of a data set, on this machine or on a Dask cluster."""
