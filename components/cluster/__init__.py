"""Shared code of steps that use a Kubernetes cluster; only they import it."""
