"""The tasks: every NAME.py is one and declares itself (lib/task.py); nothing else lists it.

A task reads sources and one stream of random numbers and yields rows in a fixed order. Its rows may depend on nothing else.
Start by copying the file that is nearest to what you want; `make_tasks.py --list` names them all."""
