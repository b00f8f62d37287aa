"""The event model against every timed step and saving of Optimus-CC's claims."""
import math

from plots.lib import claim_drawing, style, words
from plots.lib.figure import Figure, Source

CLAIMS = ("optimus_cc.M1", "optimus_cc.M2", "optimus_cc.M3")
COLUMNS = ("what", "arm", "predicted_ms", "measured_ms", "low", "high", "quotient", "counts", "within", "kind", "origin")
BOUNDS = {"step": 0.10, "saving": 0.20}  # the claims' rules
TINTS = {"emulated": "#0072b2", "measured": "#009e73"}


@Figure(
    title="Optimus-CC's event model: against every timed step and saving (checks M1 to M3)",
    order=290,
    reads=Source.CLAIMS,
    how_to_read=(
        "Measured over predicted, with 95 % intervals. Left: the step of every timed arm; shaded is 10 % around the prediction. Right:"
        " what a technique saves, where the prediction is at least 5 % of the step (smaller ones are in the CSV); shaded is 20 %."
        " Hollow: on the emulated link; filled: between network namespaces."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    tables = [t for t in claims.tables(*CLAIMS) if t.rows and t.column("measured (ms)") and t.column("predicted (ms)")]
    for table in tables:
        drawing.rows += _rows(table)
    drawn = [r for r in drawing.rows if r["counts"]]
    if not drawn:
        return drawing.skipped(claims.why_none(*CLAIMS, what="predicted and timed steps"))
    handles = style.kind_handles({r["kind"] for r in drawn}, measured=True)
    whats = [w for w in BOUNDS if any(r["what"] == w for r in drawn)]
    figure, axes = style.canvas(
        1, len(whats), height=3.4, legend_rows=1 if handles else 0, width=style.WIDTH if len(whats) > 1 else 6.5,
        foot=claim_drawing.origin_note(tables),
    )  # fmt: skip
    style.legend(figure, handles, 3)
    drawing.figure = figure
    for panel, what in zip(axes[0], whats):
        rows = [r for r in drawn if r["what"] == what]
        _panel(panel, rows, BOUNDS[what])
        panel.set(title=f"{what}s", xlabel=f"predicted {what} (ms)", ylabel="measured / predicted")
        drawing.seen.append(_seen(what, rows))
    return claim_drawing.finish(drawing, claims, tables)


def _rows(table):
    what = "saving" if "saving" in table.name else "step"
    rows = []
    for label, values in table.rows:
        measured, predicted = values["measured (ms)"], values["predicted (ms)"]
        quotient = measured / predicted if predicted > 0 else float("nan")
        if math.isfinite(quotient):
            rows.append(
                {
                    "what": what,
                    "arm": label,
                    "predicted_ms": predicted,
                    "measured_ms": measured,
                    "low": table.number(values, "low"),
                    "high": table.number(values, "high"),
                    "quotient": quotient,
                    "counts": int(values.get("judged", 1.0) != 0),
                    # The rules take distances from a measured step, and from a predicted saving.
                    "within": int(abs(1 / quotient - 1 if what == "step" else quotient - 1) <= BOUNDS[what]),
                    "kind": table.claim.kind,
                    "origin": table.claim.origin,
                }
            )
    return rows


def _panel(axes, rows, bound):
    axes.axhspan(1 - bound, 1 + bound, color="#e8eef4", zorder=0.5)
    axes.axhline(1, color=style.SOFT, linewidth=1.0, zorder=1.5)
    at = [r["predicted_ms"] for r in rows]
    tints = [TINTS.get(r["kind"], style.INK) for r in rows]
    claim_drawing.whiskers(axes, at, [r["low"] / x for r, x in zip(rows, at)], [r["high"] / x for r, x in zip(rows, at)], tints)
    style.scatter(axes, [(x, r["quotient"], style.dot(t, kind=r["kind"], size=34)) for x, r, t in zip(at, rows, tints)])
    low, high = style.log_limits(at)
    axes.set(xscale="log", xlim=(low, high))
    style.number_ticks(axes.xaxis, low, high)
    reach = max(1.6 * bound, *(1.15 * abs(r["quotient"] - 1) for r in rows))
    axes.set_ylim(1 - reach, 1 + reach)


def _seen(what, rows):
    far = max(rows, key=lambda r: abs(r["quotient"] - 1))
    inside = sum(r["within"] for r in rows)
    return (
        f"{inside} of {words.count(len(rows), what)} {'lie' if inside != 1 else 'lies'} within {100 * BOUNDS[what]:g} % of the prediction; farthest is"
        f" '{far['arm']}', measured {words.number(far['measured_ms'], 3)} ms for {words.number(far['predicted_ms'], 3)} ms predicted."
    )
