"""The figures: every AREA/NAME.py is one and declares itself (plots/lib/figure.py); nothing else lists it.

A figure imports plots.lib only, neither another figure nor the report. NAME is also its CSV's and what `--only` takes.
Start by copying the file that is nearest to what you want to show; `plots/report/report.py --list` names them all."""
