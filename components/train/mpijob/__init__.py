"""Training in the pods of an MPIJob (kubeflow.org/v2beta1)."""
