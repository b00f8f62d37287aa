"""The corpus for pre-training: every NAME.py is a collection of prose of Debian packages and declares itself (lib/collection.py); nothing else lists it.

WordNet is left out: the tasks are made from it."""
