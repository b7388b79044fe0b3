"""``kfrec doctor``: checks a machine or a cluster for kfrec's prerequisites, one line each, with the remedy."""
