"""Reviews of a built-in shop, with learnable preferences."""
