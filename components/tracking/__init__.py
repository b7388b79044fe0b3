"""MLflow tracking: every step of a pipeline run writes into one MLflow run."""
