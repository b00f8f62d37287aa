"""What coded activations gain in time, over the link's rate."""
import math

from plots.lib import claim_drawing, style, words
from plots.lib.figure import Figure, Source

LINK = "link (Gbit/s; T: Tbit/s)"
# Title, and what the points differ in: their labels drop its name.
CLAIMS = {
    "activation_compression.C7": ("auto-encoder in tensor-parallel sums", LINK),
    "activation_compression.C24": ("AQ-SGD between four stages, against f32", LINK),
    "activation_compression.C10": ("auto-encoder by batch x sequence, 1 Gbit/s", "batch x sequence"),
    "activation_compression.C8": ("auto-encoder of a fixed width by size, 1 Gbit/s", "hidden"),
}
COLUMNS = ("claim", "point", "ranks", "gbps", "speedup", "low", "high", "origin")
TINTS = {2: "#0072b2", 4: "#d55e00"}


@Figure(
    title="Speed-up by coded activations over the link's rate",
    order=425,
    reads=Source.CLAIMS,
    how_to_read=(
        "Up: time of a dense step over that of a coded one; above the line the codec pays. Hollow points: emulated links, with compute and codecs as they take on this machine;"
        " where the gain ends is a rate of this machine. Intervals of 95 % over repetitions."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    tables = {of: next(iter(claims.tables(of, name="speed-up by coded activations")), None) for of in CLAIMS}
    tables = {of: table for of, table in tables.items() if table and table.rows}
    if not tables:
        return drawing.skipped(claims.why_none(*CLAIMS, what="speed-ups by link"))
    figure, axes = style.canvas(1, len(tables), height=3.4, legend_rows=1, foot=claim_drawing.origin_note(tables.values()))
    drawing.figure = figure
    known = set()
    for panel, (of, table) in zip(axes[0], tables.items()):
        title, differs = CLAIMS[of]
        rows = [
            {"claim": of, "point": label, "ranks": int(table.number(v, "ranks")), "gbps": table.number(v, "Gbit/s"), "speedup": table.number(v, "speed-up"),
             "low": table.number(v, "low"), "high": table.number(v, "high"), "origin": table.claim.origin}
            for label, v in table.rows if math.isfinite(table.number(v, "speed-up"))
        ]  # fmt: skip
        drawing.rows += rows
        by_link = differs == LINK
        for ranks in sorted({r["ranks"] for r in rows}):
            tint = TINTS.get(ranks, style.INK)
            own = sorted((r for r in rows if r["ranks"] == ranks), key=lambda r: r["gbps"])
            at = [r["gbps"] for r in own] if by_link else list(range(len(own)))
            panel.plot(at, [r["speedup"] for r in own], color=tint, marker="o", markersize=5, markerfacecolor="white", linestyle="-" if by_link else "")
            claim_drawing.whiskers(panel, at, [r["low"] for r in own], [r["high"] for r in own], [tint] * len(at))
            known.add((ranks, tint))
            if not by_link:
                panel.set_xticks(at, [r["point"].removeprefix(differs + " ") for r in own])
        panel.axhline(1, color=style.INK, linewidth=1, zorder=1)
        if by_link:
            panel.set_xscale("log")
            rates = sorted({r["gbps"] for r in rows})
            panel.set_xticks(rates, [f"{g / 1000:g}T" if g >= 1000 else f"{g:g}" for g in rates])
            panel.xaxis.set_minor_locator(style.matplotlib.ticker.NullLocator())
        panel.set(title=style.wrap(title, 25), xlabel=differs, ylabel="times as fast")
        best, worst = max(rows, key=lambda r: r["speedup"]), min(rows, key=lambda r: r["speedup"])
        drawing.seen.append(f"{title[:1].upper() + title[1:]}: {words.times(best['speedup'])} at best ({best['point']}), {words.times(worst['speedup'])} at worst ({worst['point']}).")
    style.legend(figure, [style.Line2D([], [], label=f"{ranks} ranks", color=tint, marker="o", markersize=5, markerfacecolor="white") for ranks, tint in sorted(known)], 4)
    return claim_drawing.finish(drawing, claims, list(tables.values()))
