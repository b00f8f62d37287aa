"""The race: which training configuration reaches a loss first on which link, and how sure that is."""
