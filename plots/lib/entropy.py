"""Entropies of the text that was trained on, as the capture left them in the file's attributes."""
import numpy as np


def entropy_of(attributes, name):
    """The attribute that holds the entropy (nats per token), whatever its exact name."""
    for key in sorted(attributes):
        if (
            name in key.lower()
            and isinstance(attributes[key], (int, float))
            and np.isfinite(attributes[key])
            and attributes[key] > 0
        ):
            return float(attributes[key])
    return None
