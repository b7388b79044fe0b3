"""Host machine code: Numba kernels, aligned memory, processor features, and bit operations of 64-bit words."""
