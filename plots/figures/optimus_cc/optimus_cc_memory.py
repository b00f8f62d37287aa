"""Optimus-CC's Fig. 12, memory of compression and of lazy error propagation."""
import math
import re

from plots.lib import claim_drawing, optimus_cc, style, words
from plots.lib.figure import Figure, Source

CLAIMS = ("optimus_cc.C12",)
COLUMNS = ("arm", "stack", "stage", "peak_bytes", "above_baseline_bytes", "kind", "origin")
UNITS = {"MiB": 2.0**20, "KiB": 2.0**10, "B": 1.0}


@Figure(
    title="Optimus-CC's memory: peaks with compression and lazy error propagation (Fig. 12's shape)",
    order=230,
    reads=Source.CLAIMS,
    how_to_read=(
        "The largest number of bytes that a stage's rank held at one time, counted by the allocator: uncompressed, with compressed"
        " backward messages, and with their errors carried on (LEP). Left: the peak; right: what it is above the uncompressed one."
        " Scratch tables that nothing reads, which the released code allocates, are not there. Measured; the paper's own values are"
        " not available."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    table = next((t for t in claims.tables(*CLAIMS) if t.rows and any(_stage(c) for c in t.columns)), None)
    if table is None:
        return drawing.skipped(claims.why_none(*CLAIMS, what="peaks of memory"))
    base = table.rows[0][1]
    for arm, values in table.rows:
        for column in table.columns:
            if (stage := _stage(column)) and math.isfinite(values[column]):
                drawing.rows.append(
                    {
                        "arm": arm,
                        "stack": optimus_cc.stack_of(arm),
                        "stage": stage[0],
                        "peak_bytes": round(values[column] * stage[1]),
                        "above_baseline_bytes": round((values[column] - base[column]) * stage[1]),
                        "kind": "measured",
                        "origin": table.claim.origin,
                    }
                )
    arms = list(dict.fromkeys(r["arm"] for r in drawing.rows))
    tints = optimus_cc.colours(arms)
    handles = [style.plt.Rectangle((0, 0), 1, 1, label=optimus_cc.label(a), **style.bar(tints[a])) for a in arms]
    figure, axes = style.canvas(
        1, 2, height=3.2, legend_rows=style.legend_rows(handles, 3), foot=claim_drawing.origin_note([table])
    )
    style.legend(figure, handles, 3)
    drawing.figure = figure
    for panel, what, title in zip(
        axes[0],
        ("peak_bytes", "above_baseline_bytes"),
        ("peak of a stage's rank", f"above {optimus_cc.label(arms[0])}"),
    ):
        _panel(panel, drawing.rows, what, arms, tints)
        panel.set_title(title)
    drawing.seen = _seen(drawing.rows, arms)
    return claim_drawing.finish(drawing, claims, [table])


def _stage(column):
    """(stage, bytes per unit) of a column such as `stage 2 (MiB)`; nothing for another one."""
    found = re.fullmatch(r"stage (\d+) \((\w+)\)", column)
    return (int(found[1]), UNITS[found[2]]) if found and found[2] in UNITS else None


def _panel(axes, rows, what, arms, tints):
    unit, factor = ("MiB", 2.0**20) if max(abs(r[what]) for r in rows) >= 2**21 else ("KiB", 2.0**10)
    shown = arms if what == "peak_bytes" else arms[1:]
    width = 0.8 / max(1, len(shown))
    for i, arm in enumerate(shown):
        own = [r for r in rows if r["arm"] == arm]
        x = [r["stage"] + (i - (len(shown) - 1) / 2) * width for r in own]
        axes.bar(x, [r[what] / factor for r in own], width=0.9 * width, **style.bar(tints[arm]))
    stages = sorted({r["stage"] for r in rows})
    axes.axhline(0, color=style.SOFT, linewidth=1.0, zorder=1.5)
    axes.set_xticks(stages, [f"stage {s}" for s in stages])
    axes.grid(axis="x", visible=False)
    axes.set_ylabel(unit)


def _seen(rows, arms):
    worst = max((r for r in rows if r["arm"] == arms[0]), key=lambda r: r["peak_bytes"])
    seen = [f"{optimus_cc.label(arms[0])} holds at most {words.size(worst['peak_bytes'])}, on stage {worst['stage']}."]
    for arm in arms[1:]:
        more = [(r["above_baseline_bytes"], r) for r in rows if r["arm"] == arm]
        low, high = min(m for m, _ in more), max(m for m, _ in more)
        peak = max(r["peak_bytes"] for _, r in more)
        change = words.size(high) if low == high else f"{words.size(low)} to {words.size(high)}"
        seen.append(
            f"{optimus_cc.label(arm)}: {change} more than {optimus_cc.label(arms[0])}, by stage; the largest peak changes by"
            f" {100 * (peak / worst['peak_bytes'] - 1):+.2f} %."
        )
    return seen
