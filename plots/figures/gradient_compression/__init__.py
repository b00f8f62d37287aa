"""Claims about compressed gradients: how full a sketch may be and still be decoded."""
