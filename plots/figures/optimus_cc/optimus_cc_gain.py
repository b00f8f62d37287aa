"""Optimus-CC's claim C15, the gain that theta and a link's rate predict against the measured one."""
import math

from plots.lib import claim_drawing, style, words
from plots.lib.figure import Figure, Source

CLAIMS = ("optimus_cc.C15",)
COLUMNS = ("point", "rank", "link_gbps", "theta_gbps", "predicted_speedup", "measured_speedup", "low", "high", "counts", "agrees", "kind", "origin")
WORTH = 0.1  # of the time; points with less of a predicted gain are drawn and not counted (the claim's rule)


@Figure(
    title="Optimus-CC's rule of gain: predicted against measured speed-up of a message (claim C15)",
    order=270,
    reads=Source.CLAIMS,
    how_to_read=(
        "One point per rank and link: the speed-up of a message that theta (uncompressed bits over the time to compress and decompress)"
        " and the link's rate predict, against the measured one, compression and decompression included. Both agree whether it pays"
        " in the shaded quadrants; points between the dotted lines, with a predicted gain of less than 10 %, are not counted. The"
        " diagonal is a perfect prediction. Hollow points are from the emulated link, filled ones from network namespaces."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    tables = [t for t in claims.tables(*CLAIMS) if t.rows and t.column("predicted") and t.column("measured")]
    if not tables:
        return drawing.skipped(claims.why_none(*CLAIMS, what="predicted and measured gains"))
    missing = []
    for table in tables:
        rows, without = _rows(table)
        drawing.rows += rows
        missing += without
    if missing:
        drawing.gaps.append(f"Not measured: {words.listing(missing, 12)}.")
    if not drawing.rows:
        return drawing.skipped(f"no data because none of {len(missing)} points was measured.")
    rates = sorted({r["link_gbps"] for r in drawing.rows})
    tints = {rate: style.LINK_COLOURS[i % len(style.LINK_COLOURS)] for i, rate in enumerate(rates)}
    handles = [
        style.Line2D([], [], color=tints[r], marker="o", linestyle="", markersize=6, label=f"{words.number(r, 3)} Gbit/s" if math.isfinite(r) else "link")
        for r in rates
    ]
    handles += style.kind_handles({r["kind"] for r in drawing.rows}, measured=True)
    figure, axes = style.canvas(
        1, 1, height=4.6, width=6.8, legend_rows=style.legend_rows(handles, 4), foot=claim_drawing.origin_note(tables)
    )
    style.legend(figure, handles, 4)
    drawing.figure = figure
    _panel(axes[0, 0], drawing.rows, tints)
    drawing.seen = _seen(drawing.rows)
    return claim_drawing.finish(drawing, claims, tables)


def _rows(table):
    """(rows, labels of points without a measured gain)."""
    measured = table.column("measured", without=("low", "high"))
    rows, missing = [], []
    for label, values in table.rows:
        predicted = 1 + values[table.column("predicted")]
        speedup = 1 + values[measured]
        if not (predicted > 0 and speedup > 0):
            missing.append(label)
            continue
        counts = int(abs(predicted - 1) > WORTH)
        rows.append(
            {
                "point": label,
                "rank": int(table.number(values, "rank")),
                "link_gbps": table.number(values, "link"),
                "theta_gbps": table.number(values, "theta"),
                "predicted_speedup": predicted,
                "measured_speedup": speedup,
                "low": 1 + table.number(values, "low"),
                "high": 1 + table.number(values, "high"),
                "counts": counts,
                "agrees": int((predicted > 1) == (speedup > 1)) if counts else -1,
                "kind": table.claim.kind,
                "origin": table.claim.origin,
            }
        )
    return rows, missing


def _panel(axes, rows, tints):
    low, high = style.log_limits([v for r in rows for v in (r["predicted_speedup"], r["measured_speedup"], 0.8, 1.25)], pad=0.06)
    for corner, side in ((1.0, high - 1.0), (low, 1.0 - low)):
        axes.add_patch(style.plt.Rectangle((corner, corner), side, side, facecolor="#e8eef4", linewidth=0, zorder=0.5))
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    for axis in (axes.xaxis, axes.yaxis):
        style.number_ticks(axis, low, high)
    axes.plot([low, high], [low, high], color=style.SOFT, linewidth=0.8, zorder=1.5)
    for x in (1 - WORTH, 1 + WORTH):
        axes.axvline(x, color=style.SOFT, linestyle=(0, (1, 2)), linewidth=0.9, zorder=1.5)
    at = [r["predicted_speedup"] for r in rows]
    claim_drawing.whiskers(axes, at, [r["low"] for r in rows], [r["high"] for r in rows], [tints[r["link_gbps"]] for r in rows])
    style.scatter(axes, [(x, r["measured_speedup"], style.dot(tints[r["link_gbps"]], kind=r["kind"])) for x, r in zip(at, rows)])
    axes.set(xlabel="predicted speed-up of a message", ylabel="measured speed-up")


def _seen(rows):
    counted = [r for r in rows if r["counts"]]
    if not counted:
        return [f"None of {len(rows)} points has a predicted gain of more than {100 * WORTH:g} %."]
    right = sum(r["agrees"] for r in counted)
    seen = [
        f"Whether it pays is predicted rightly in {right} of {len(counted)} points with a predicted gain or loss of more than"
        f" {100 * WORTH:g} % ({words.percent(right, len(counted))}); {len(rows) - len(counted)} more are not counted."
    ]
    wrong = [r["point"] for r in counted if not r["agrees"]]
    return seen + ([f"Against the prediction: {words.listing(wrong, 8)}."] if wrong else [])
