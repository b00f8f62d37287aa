"""What every task shares: how it declares itself, its stream of random numbers, the split into train and dev, the files."""
