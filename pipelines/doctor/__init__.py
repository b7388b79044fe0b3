"""``kfrec doctor``: what a machine or a cluster has and lacks for kfrec, one line each, with what to do."""
