"""The modelled iteration of the paper's two models on 128 ranks, per stack."""
import math

from plots.lib import claim_drawing, optimus_cc, style, words
from plots.lib.figure import Figure, Source

CLAIMS = ("optimus_cc.C14",)
COLUMNS = ("model", "tflops", "stack", "part", "ms", "step_ms", "speedup", "kind", "origin")


@Figure(
    title="Optimus-CC on 128 ranks: a modelled iteration of GPT-2.5B and GPT-8.3B",
    order=280,
    reads=Source.CLAIMS,
    how_to_read=(
        "The event model walks the schedule of one iteration with the paper's sizes (T 8, P 4, D 4, 16 micro-batches) on 16 nodes with 25"
        " GB/s each. What a rank computes per second is not known of the authors' cluster; both ends of an assumed range are drawn."
        " Parts are the exposed times of each communication, the rest is computing and the pipeline's bubble. Nothing here was"
        " measured, hence the dotted edges; the paper's own times are not available."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    tables = [t for t in claims.tables(*CLAIMS, name="128") if t.rows and t.claim.kind == "modelled"]
    if not tables:
        return drawing.skipped(claims.why_none(*CLAIMS, what="modelled iterations on 128 ranks"))
    for table in tables:
        drawing.rows += _rows(table)
    panels = list(dict.fromkeys((r["model"], r["tflops"]) for r in drawing.rows))
    parts = {r["part"] for r in drawing.rows}
    handles = optimus_cc.part_handles(parts, "modelled")
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    figure, axes = style.canvas(lines, columns, height=1.9 * lines, legend_rows=1, foot=claim_drawing.origin_note(tables))
    style.legend(figure, handles, 6)
    drawing.figure = figure
    for panel in axes.flat[len(panels) :]:
        panel.set_visible(False)
    for panel, (model, tflops) in zip(axes.flat, panels):
        rows = [r for r in drawing.rows if (r["model"], r["tflops"]) == (model, tflops)]
        _panel(panel, rows)
        panel.set_title(f"GPT-{model}, {tflops:g} TFLOP/s per rank (assumed)" if math.isfinite(tflops) else f"GPT-{model}")
        drawing.seen.append(_seen(model, tflops, rows))
    for panel in axes[-1]:
        panel.set_xlabel("iteration (s)")
    return claim_drawing.finish(drawing, claims, tables)


def _rows(table):
    rows, first = [], {}
    parts = optimus_cc.parts_of(table)
    for label, values in table.rows:
        model, _, arm = label.partition(" ")
        tflops, step = table.number(values, "TFLOP/s"), table.number(values, "step")
        base = first.setdefault((model, tflops), step)
        for part, column in parts.items():
            rows.append(
                {
                    "model": model.removeprefix("GPT-"),
                    "tflops": tflops,
                    "stack": optimus_cc.stack_of(arm),
                    "part": part,
                    "ms": values[column],
                    "step_ms": step,
                    "speedup": base / step,
                    "kind": "modelled",
                    "origin": table.claim.origin,
                }
            )
    return rows


def _panel(axes, rows):
    stacks = list(dict.fromkeys(r["stack"] for r in rows))
    bars = []
    for i, stack in enumerate(stacks):
        own = [r for r in rows if r["stack"] == stack]
        note = f"{words.number(own[0]['step_ms'] / 1e3, 4)} s" + (f"  {own[0]['speedup']:.3f}×" if i else "")
        bars.append({"parts": {r["part"]: r["ms"] / 1e3 for r in own}, "step_ms": own[0]["step_ms"] / 1e3, "note": note})
    optimus_cc.stacked(axes, bars, stacks, "modelled")


def _seen(model, tflops, rows):
    speed = {r["stack"]: r["speedup"] for r in rows}
    others = [f"{s} {v:.3f}×" for s, v in list(speed.items())[1:]]
    base = next(iter(speed))
    step = next(r["step_ms"] for r in rows)
    talk = sum(r["ms"] for r in rows if r["stack"] == base and r["part"] != "the rest" and math.isfinite(r["ms"]))
    return (
        f"GPT-{model} at {tflops:g} TFLOP/s: an iteration of {base} takes {words.number(step / 1e3, 3)} s by the model,"
        f" {100 * talk / step:.0f} % of it exposed communication; speed-ups: {words.listing(others)}."
    )
