"""Training runs: the captured one, and one model trained under several compression plans."""
