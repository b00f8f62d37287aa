"""Codecs alone: their speed against the machine's bounds, and how compressible the traffic is."""
