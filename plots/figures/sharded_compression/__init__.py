"""Figures of claims about sharded training: what coded gathers and scatters gain on links."""
