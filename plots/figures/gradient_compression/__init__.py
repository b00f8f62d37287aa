"""Claims about compressed gradients: how full a sketch may be and still be decoded, what TAGC and lossless sums gain by link, what codecs cost in loss."""
