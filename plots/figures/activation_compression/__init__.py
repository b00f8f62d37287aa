"""Claims about compressed activations: what they cost in loss and accuracy, where they are coded, what they gain in time."""
