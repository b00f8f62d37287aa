"""What activations lose over the bytes that are spent on them: auto-encoders by width, Top-K by share, quantisation by bits, low rank by rank."""
import re

from plots.lib import claim_drawing, comparisons, style, words
from plots.lib import claims as claims_of
from plots.lib.figure import Figure, Source

CLAIMS = ("activation_compression.C1", "activation_compression.C13")
GROUND = "activations, equal bytes"
COLUMNS = ("comparison", "method", "size", "percent", "difference", "low", "high", "origin")
TINTS = ("#009e73", "#d55e00", "#0072b2", "#cc79a7", "#e69f00", "#56b4e9")
_METHODS = ("auto-encoder, f16", "Top-K", "quantisation", "PowerSGD, f16", "auto-encoder, f32", "PowerSGD, f32")  # those that are drawn most often first
F16_BITS = 16
# What an arm sends of [rows, hidden] values in f16, by its name (experiments/claims/activation_compression/losses/equal_bytes.cpp); ", f32" sends twice as much.
_SIZES = (
    (re.compile(r"^auto-encoder, width (\d+)"), "auto-encoder", lambda n, rows, hidden: n / hidden),
    (re.compile(r"^Top-K at ([\d.]+) %"), "Top-K", lambda n, rows, hidden: n / 100),
    (re.compile(r"^(\d+) bits"), "quantisation", lambda n, rows, hidden: n / F16_BITS),
    (re.compile(r"^PowerSGD, rank (\d+)"), "PowerSGD", lambda n, rows, hidden: n * (rows + hidden) / (rows * hidden)),
)


@Figure(
    title="Loss over the bytes that a code of activations has",
    order=422,
    reads=Source.CLAIMS,
    how_to_read=(
        "Across: bytes of a code over those of the activation in f16 (scales of quantisation come on top). Up: final validation loss above the dense arm's of the same seed, mean with its 95 %"
        " interval by Student's t. Lower is better, at equal bytes as at equal loss."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    tables = [t for t in claims.tables(*CLAIMS, name=comparisons.BEGINNING + GROUND) if len(t.rows) > 1]
    grounds = {c.title: rows for c in comparisons.by_ground(tables) if (rows := _rows(c))}
    if not grounds:
        return drawing.skipped(claims.why_none(*CLAIMS, what="losses by the bytes of a code"))
    figure, axes = style.canvas(1, len(grounds), height=3.6, legend_rows=2, foot=claim_drawing.origin_note(tables), sharey="row")
    drawing.figure = figure
    shown = [m for m in _METHODS if any(r["method"] == m for rows in grounds.values() for r in rows)]
    looks = dict(zip(shown, TINTS))
    for panel, (ground, rows) in zip(axes[0], grounds.items()):
        drawing.rows += rows
        for method in shown:
            points = sorted((r for r in rows if r["method"] == method), key=lambda r: r["percent"])
            at = [r["percent"] for r in points]
            panel.plot(at, [r["difference"] for r in points], color=looks[method], marker="o", markersize=5)
            claim_drawing.whiskers(panel, at, [r["low"] for r in points], [r["high"] for r in points], [looks[method]] * len(at))
        panel.axhline(0, color=style.INK, linewidth=1, zorder=1)
        panel.set_xscale("log")
        ticks = sorted({round(r["percent"], 1) for r in rows})
        panel.set_xticks(ticks, [f"{t:g}" for t in ticks])
        panel.xaxis.set_minor_locator(style.matplotlib.ticker.NullLocator())
        panel.set(xlabel="bytes of the code (% of f16)", title="" if len(grounds) == 1 else style.wrap(ground.removeprefix(GROUND).strip(" ()"), 60))
        drawing.seen += _seen("" if len(grounds) == 1 else ground + ": ", rows)
    axes[0, 0].set_ylabel("loss above dense (nats per token)")
    style.legend(figure, [style.Line2D([], [], label=m, color=t, marker="o", markersize=5) for m, t in looks.items()], 3)
    return claim_drawing.finish(drawing, claims, tables)


def _rows(comparison):
    settings = " ".join(claim_drawing.settings_of([t.claim for t in comparison.tables]))
    setting = lambda name: float(found[1]) if (found := re.search(rf"\b{name} ([\d.]+)", settings)) else float("nan")
    hidden, tokens = setting("hidden"), setting("micro-batch") * setting("seq")
    rows = []
    for arm, parts in comparisons.differences(comparison.arms):
        for pattern, method, share in _SIZES:
            if match := pattern.match(arm):
                of_f32 = arm.endswith(", f32")
                percent = 100 * share(float(match[1]), tokens, hidden) * (2 if of_f32 else 1)
                if percent != percent:
                    continue  # the rule does not say of how many values
                mean, low, high = claims_of.interval(parts)
                wire = f", {'f32' if of_f32 else 'f16'}" if method in ("auto-encoder", "PowerSGD") else ""
                rows.append({"comparison": comparison.title, "method": method + wire, "size": match[1], "percent": percent, "difference": mean, "low": low, "high": high, "origin": comparison.origin})
    return rows


def _seen(where, rows):
    """At each number of bytes that several methods have, who loses least and who most."""
    said = []
    for percent in sorted({round(r["percent"]) for r in rows}, reverse=True):
        own = sorted((r for r in rows if round(r["percent"]) == percent), key=lambda r: r["difference"])
        if len(own) > 1:
            said.append(f"{where}at {percent} % of the bytes {own[0]['method']} loses least, {words.number(own[0]['difference'])} nats, and {own[-1]['method']} most, {words.number(own[-1]['difference'])}.")
    return [text[:1].upper() + text[1:] for text in said]
