"""The tfrecord step: samples in parquet to shuffled record files with a feature specification."""
