"""Runs on a cluster, through KFP's v2beta1 API and its official client."""
