"""Numbers of the papers (results/published/*.csv). Only rows marked `read` are the paper's; `recollected` ones come on
request and are labelled unverified."""
import csv
import glob
import os

from plots.lib.errors import CorruptData

COLUMNS = ("paper", "artifact", "row", "column", "value", "unit", "provenance", "source", "note")
FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "results", "published")


def load(folder, recollected=False):
    """Rows of abstracts and headlines as dictionaries, `read` ones first. A missing folder gives no rows."""
    wanted = {"read"} | ({"recollected"} if recollected else set())
    rows = []
    for path in sorted(glob.glob(os.path.join(folder, "*.csv"))):
        with open(path, newline="", encoding="utf-8") as stream:
            reader = csv.DictReader(stream)
            missing = [c for c in COLUMNS if c not in (reader.fieldnames or ())]
            if missing:
                raise CorruptData(f"{path} lacks the column(s) {', '.join(missing)}; see results/published")
            rows += [{**row, "file": os.path.basename(path)} for row in reader if row["provenance"] in wanted]
    return sorted(rows, key=lambda row: row["provenance"] != "read")


def nominal_links(folder):
    """(name, Gbit/s per direction, provenance, source) of real links, the slowest first: what their names or makers say, measured by nobody here."""
    rows = []
    with open(os.path.join(folder, "links.csv"), newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if row["artifact"] == "link" and row["unit"] == "Gbit/s":
                rows.append((row["row"], float(row["value"]), row["provenance"], row["source"]))
    return sorted(rows, key=lambda row: row[1])


def claims(rows):
    """What the papers say about speed and exactness in their abstracts, as table rows (paper, statement, value, mark)."""
    quantities = ("x", "%", "% kept", "Mb/s", "bit", "text")
    result = []
    for row in rows:
        if row["artifact"] in ("abstract", "headline", "conclusion") and row["unit"] in quantities:
            unit = "" if row["unit"] == "text" else "×" if row["unit"] == "x" else f" {row['unit']}"
            mark = "read" if row["provenance"] == "read" else "recollected, unverified"
            result.append(
                [row["paper"], f"{row['row']}: {row['column']}", f"{row['value']}{unit}", mark, row["source"]]
            )
    return result
