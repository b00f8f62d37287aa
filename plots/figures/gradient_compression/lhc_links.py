"""Lossless homomorphic compression against a dense sum: how many times faster sparse gradients are added, by link."""
import math
import re

from plots.lib import claim_drawing, style
from plots.lib.figure import Figure, Source

CLAIMS = ("gradient_compression.C14", "gradient_compression.C15")  # both hold the same table
TABLE = "lossless homomorphic compression against a dense sum"
COLUMNS = ("link", "ranks", "what", "speedup", "low", "high", "relative_l2", "exact", "origin")
EXACT = 1e-6  # the claims' constant
TINTS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


@Figure(
    title="Lossless homomorphic compression against a dense sum, by link",
    order=415,
    reads=Source.CLAIMS,
    how_to_read=(
        "One panel per link, one row per configuration: which elements are not zero (the same ones on all ranks, or others on each), their share, the ratio c of elements"
        " to counters, bits of an index. Disks: sums that are exact (relative L2 of at most 1e-6); crosses: sums that are not, which no claim counts. 95 % intervals behind."
        " Left of the line at 1 the dense sum is faster."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    table = next((t for t in claims.tables(*CLAIMS, name=TABLE) if t.rows), None)
    if not table:
        return drawing.skipped(claims.why_none(*CLAIMS, what="sums of sparse gradients by link"))
    for label, values in table.rows:
        link, _, rest = label.partition(", ")
        what = re.sub(r"^\d+ ranks, ", "", rest).replace("density ", "").replace(" supports", "")
        drawing.rows.append(
            {
                "link": link,
                "ranks": int(values["ranks"]),
                "what": what,
                "speedup": values["speed-up"],
                "low": values["low"],
                "high": values["high"],
                "relative_l2": values["relative L2"],
                "exact": values["relative L2"] <= EXACT,
                "origin": table.claim.origin,
            }
        )
    links, whats, ranks = (list(dict.fromkeys(r[key] for r in drawing.rows)) for key in ("link", "what", "ranks"))
    figure, axes = style.canvas(1, len(links), height=1.3 + 0.26 * len(whats), legend_rows=1, foot=claim_drawing.origin_note([table]), sharey=True)
    drawing.figure = figure
    tint = dict(zip(ranks, TINTS))
    shift = {r: 0.36 * (i / max(len(ranks) - 1, 1) - 0.5) for i, r in enumerate(ranks)}
    for panel, link in zip(axes[0], links):
        own = [r for r in drawing.rows if r["link"] == link and r["speedup"] > 0]
        at = [whats.index(r["what"]) + shift[r["ranks"]] for r in own]
        low = [max(r["low"], 0.5 * r["speedup"]) if math.isfinite(r["low"]) else math.nan for r in own]  # a logarithmic axis has no end below
        claim_drawing.whiskers(panel, at, low, [r["high"] for r in own], [tint[r["ranks"]] for r in own], horizontal=True)
        for exact, marker in ((True, "o"), (False, "x")):
            of = [(r, y) for r, y in zip(own, at) if r["exact"] == exact]
            panel.scatter([r["speedup"] for r, _ in of], [y for _, y in of], marker=marker, s=30, linewidths=1.3, c=[tint[r["ranks"]] for r, _ in of], zorder=3)
        panel.axvline(1, color=style.SOFT, linewidth=1)
        left, right = style.log_limits([r["speedup"] for r in own] + [1], 0.1)
        panel.set(xscale="log", xlim=(left, right), xlabel="dense sum / compressed sum", title=style.link_name(link))
        style.number_ticks(panel.xaxis, left, right)
    axes[0, 0].set_yticks(range(len(whats)), whats)
    axes[0, 0].set_ylim(len(whats) - 0.4, -0.6)
    marks = [style.Line2D([], [], linestyle="", marker=m, color=style.INK, label=text) for m, text in (("o", "exact"), ("x", "not exact"))]
    style.legend(figure, [style.Line2D([], [], linestyle="", marker="s", color=tint[r], label=f"{r} ranks") for r in ranks] + marks, 4)
    drawing.seen = [_seen(link, [r for r in drawing.rows if r["link"] == link]) for link in links]
    return claim_drawing.finish(drawing, claims, [table])


def _seen(link, rows):
    """The fastest exact sum of a link, and how many configurations are exact."""
    exact = [r for r in rows if r["exact"] and math.isfinite(r["speedup"])]
    if not exact:
        return f"On {link} no sum is exact."
    best = max(exact, key=lambda r: r["speedup"])
    return f"On {link} {len(exact)} of {len(rows)} sums are exact; the fastest ({best['ranks']} ranks, {best['what']}) takes 1/{best['speedup']:.2f} of the dense sum's time."
