"""``kfrec doctor``: checks kfrec's prerequisites on a machine or a cluster; one line each, with the remedy."""
