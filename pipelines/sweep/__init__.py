"""Search for parameters of a training: trials on this machine, or a Katib Experiment on a cluster."""
