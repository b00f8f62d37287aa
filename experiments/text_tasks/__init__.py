"""Stand-in tasks for fine-tuning, of GLUE's shapes, made on the user's machine from Debian packages (docs/papers/text_tasks.md).

sources/ (WordNet, GCIDE, rules for texts) knows nothing of tasks/ (one file per task, found by itself); lib/ declares, finds, splits and writes tasks.
Start at make_tasks.py, and at any file of tasks/. Standard library only."""
