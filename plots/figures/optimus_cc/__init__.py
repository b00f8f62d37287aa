"""Optimus-CC's claims: stacks, curves, memory, errors, selective stages, and the event model behind them."""
