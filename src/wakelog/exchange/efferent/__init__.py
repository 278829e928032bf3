"""Sessions of efferent (xandreeddev/efferent)."""
