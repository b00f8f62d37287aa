"""Claims about compressed gradients: sketches, thresholds, throughputs."""
