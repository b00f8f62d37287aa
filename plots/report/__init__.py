"""The two programs (report.py, summary.py), how figures are found, and the HTML page around them.

May import all of plots; names no figure: discovery.py finds them.
Start at report.py; story.py is the order of the page, page.py its HTML, report.js its filters; answer.py, this_run.py and claims_table.py are its parts."""
