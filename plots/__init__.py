"""Figures and report of thinwire. Everything here reads collected results only (docs/figures.md)."""
