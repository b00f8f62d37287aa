"""Tensor parallelism in 1, 2, 2.5 and 3 dimensions: bytes, errors, steps, and the papers' tables beside the cost model."""
