"""The train step: launches the Horovod processes that train a model together, and implements these processes."""
