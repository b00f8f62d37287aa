"""Optimus-CC's Fig. 10, where a step's time goes per stack, by leaving one communication out at a time."""
import math

from plots.lib import claim_drawing, optimus_cc, style, words
from plots.lib.figure import Figure, Source

CLAIMS = ("optimus_cc.C14",)
COLUMNS = ("stack", "part", "ms", "step_ms", "step_low", "step_high", "modelled_step_ms", "kind", "origin")


@Figure(
    title="Optimus-CC's time: a step by instrumentation (Fig. 10's shape)",
    order=210,
    reads=Source.CLAIMS,
    how_to_read=(
        "One bar per stack. Each communication was left out in turn; a part is the time by which the step became shorter, so it is"
        " what the communication costs, not how long it lasts, and parts that overlap need not add up: the rest is what remains"
        " (computing, the pipeline's bubble, codecs). A communication that costs less than nothing by measurement is not drawn and"
        " stands in the CSV. The black line is the step with its 95 % interval, the dotted square what the event model says of it."
        " Pale bars with an edge: measured on the emulated link."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    table = next((t for t in claims.tables(*CLAIMS, name="stacks") if t.rows and _basis(t) != "modelled" and optimus_cc.parts_of(t)), None)
    if table is None:
        return drawing.skipped(claims.why_none("optimus_cc.C14", what="steps with one communication left out"))
    kind, parts = _basis(table), optimus_cc.parts_of(table)
    bars = []
    for label, values in table.rows:
        step = table.number(values, "step")
        if not math.isfinite(step):
            drawing.gaps.append(f"no bar of {label} because its step was not measured.")
            continue
        bars.append((optimus_cc.stack_of(label), step, values))
    if not bars:
        return drawing.skipped("no data because no stack's step was measured.")
    for stack, step, values in bars:
        for part, column in parts.items():
            drawing.rows.append(
                {
                    "stack": stack,
                    "part": part,
                    "ms": values[column],
                    "step_ms": step,
                    "step_low": table.number(values, "low"),
                    "step_high": table.number(values, "high"),
                    "modelled_step_ms": table.number(values, "model"),
                    "kind": kind,
                    "origin": table.claim.origin,
                }
            )
    handles = optimus_cc.part_handles(parts, kind)
    handles.append(style.Line2D([], [], color=style.INK, linewidth=1.6, label="step [95 %]"))
    modelled = any(math.isfinite(r["modelled_step_ms"]) for r in drawing.rows)
    if modelled:
        handles.append(
            style.Line2D([], [], marker="s", linestyle="", markersize=6, markerfacecolor="none", markeredgewidth=0.8, color=style.INK, label="step, event model")
        )
    figure, axes = style.canvas(
        1, 1, height=1.0 + 0.5 * len(bars), width=9.0, legend_rows=style.legend_rows(handles, 4), foot=claim_drawing.origin_note([table])
    )
    style.legend(figure, handles, 4)
    drawing.figure = figure
    _panel(axes[0, 0], drawing.rows, kind)
    axes[0, 0].set_title("step on the emulated link" if kind == "emulated" else "step, measured")
    drawing.seen = _seen(drawing.rows)
    return claim_drawing.finish(drawing, claims, [table])


def _basis(table):
    return table.claim.kind


def _panel(axes, rows, kind):
    stacks = list(dict.fromkeys(r["stack"] for r in rows))
    first = {s: next(r for r in rows if r["stack"] == s) for s in stacks}
    base = first[stacks[0]]["step_ms"]
    bars = [
        {
            "parts": {r["part"]: r["ms"] for r in rows if r["stack"] == s},
            "step_ms": max(first[s]["step_ms"], first[s]["step_high"] if math.isfinite(first[s]["step_high"]) else 0),
            "note": f"{words.number(first[s]['step_ms'], 4)} ms" + (f"  {base / first[s]['step_ms']:.2f}×" if s != stacks[0] else ""),
        }
        for s in stacks
    ]
    optimus_cc.stacked(axes, bars, stacks, kind)
    for y, s in enumerate(stacks):
        row = first[s]
        axes.plot([row["step_ms"]] * 2, [y - 0.38, y + 0.38], color=style.INK, linewidth=1.6, zorder=4)
        claim_drawing.whiskers(axes, [y], [row["step_low"]], [row["step_high"]], [style.INK], horizontal=True)
        if math.isfinite(row["modelled_step_ms"]):
            axes.scatter(row["modelled_step_ms"], y, **{**style.dot(style.INK, "s", "modelled", size=46), "facecolors": "white", "zorder": 5})
    axes.set_xlabel("ms")


def _seen(rows):
    seen = []
    for stack in dict.fromkeys(r["stack"] for r in rows):
        own = {r["part"]: r["ms"] for r in rows if r["stack"] == stack and math.isfinite(r["ms"])}
        step = next(r["step_ms"] for r in rows if r["stack"] == stack)
        talk = {p: v for p, v in own.items() if p != "the rest"}
        if not talk:
            continue
        most = max(talk, key=talk.get)
        seen.append(
            f"{stack}: a step takes {words.number(step, 4)} ms; leaving out {most} saves most, {words.number(talk[most], 3)} ms"
            f" ({100 * talk[most] / step:.0f} %)."
        )
    return seen
