"""Training in the pods of a job of Kubernetes: what creates, watches, restarts and explains it, whatever its kind."""
