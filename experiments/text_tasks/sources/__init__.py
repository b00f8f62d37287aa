"""What tasks are made from: WordNet, the GCIDE dictionary, pairs of definitions that agree, and the rules that texts follow."""
