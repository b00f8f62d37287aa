"""What figures are made of: loading and naming of data, looks, sentences, tables.

Imports nothing of plots but plots.lib. Only what several figures, or a figure and the report, need is here.
Start at data.py (the collected file), claims.py (judged claims) and figure.py (how a figure declares itself)."""
