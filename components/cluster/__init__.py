"""What steps share that have a Kubernetes cluster work for them; imported only by those that do."""
