"""Preprocessing on a Dask cluster that the Dask operator makes for the step, through the official Kubernetes client."""
