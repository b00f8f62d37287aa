"""Figures and report of thinwire, from collected results and judged claims only (docs/figures.md).

lib/ (data, drawing, words) knows nothing of figures/ (one file per figure, found by itself), which knows nothing of report/ (the programs).
Start at report/report.py, which is what `run_all.sh` calls, and at any file of figures/."""
