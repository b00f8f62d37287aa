"""TeraPipe's token slices: its formula, its settings, its gain over the length of a sequence."""
