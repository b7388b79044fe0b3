"""Shared code of the steps that use a Kubernetes cluster; imported only by these."""
