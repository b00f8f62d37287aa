"""The predicted break-even bandwidth of each cell against what was measured on the rated links."""
import numpy as np

from plots.lib import data, style, traffic_classes, words
from plots.lib.figure import Figure, Source

COLUMNS = (
    "what",
    "link",
    "link_gbps",
    "traffic",
    "label",
    "codec_family",
    "form",
    "protocol",
    "kind",
    "group",
    "layout",
    "shape",
    "tensor",
    "predicted_gbps",
    "speedup",
    "quotient",
    "agrees",
    "bracket_low_gbps",
    "bracket_high_gbps",
)
NEVER = 0.0


@Figure(
    title="Break-even bandwidth: predicted against measured",
    order=30,
    reads=Source.BENCHES,
    how_to_read=(
        "Prediction: w* = 8 (bytes of the baseline − bytes sent) / (encode + decode time); a method should"
        " pay on links slower than w*. One panel per rated link: w* divided by the link's rate against"
        " the measured speed-up; prediction and measurement agree in the shaded quadrants. At the left"
        " edge: methods that send no fewer bytes than the baseline and so should never pay. Last panel: w*"
        " against the rates between which the measured speed-up of the same cell crosses 1 (vertical"
        " bars; a triangle where it pays on every rated link, or on none); the diagonal is a perfect"
        " prediction."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    cells = collected.cells.where(traffic=traffic_classes.NAMES)
    usable = data.timed(cells)
    usable = usable.where(
        np.isfinite(usable["break_even_gbps"])
        & data.positive(usable["link_gbps"])
        & (usable["family"] != "none")
    )
    if not len(usable):
        return drawing.without_data(
            data.why_none(cells.where(_rated(cells)), "compressed cells on a link of known rate")
        )
    links = data.links(usable)
    points = [_point(row) for row in usable.rows()]
    brackets = _brackets(usable, links) if len(links) > 1 else []
    drawing.rows = points + brackets
    handles = (
        style.family_handles({p["codec_family"] for p in points})
        + style.protocol_handles({(p["form"], p["protocol"]) for p in points})
        + style.kind_handles({p["kind"] for p in points})
    )
    panels = len(links) + bool(brackets)
    columns = min(panels, 3) if panels != 4 else 2
    lines = -(-panels // columns)
    per_line = 7 if columns > 1 else 4  # a single panel is narrower
    figure, axes = style.canvas(
        lines,
        columns,
        width=style.WIDTH if columns > 1 else 6.5,
        height=lines * (3.7 if columns > 2 else 4.0),
        legend_rows=style.legend_rows(handles, per_line),
    )
    style.legend(figure, handles, per_line)
    drawing.figure = figure
    spots = axes.ravel()
    limits = _limits(points)
    for panel, link in zip(spots, links):
        here = [p for p in points if p["link"] == link]
        panel.set_title(style.link_name(link, data.rate_of(collected.cells, link)))
        _panel(panel, here, limits)
        drawing.seen.append(_seen(link, here))
    if brackets:
        spots[len(links)].set_title("crossing of speed-up 1")
        _bracket_panel(spots[len(links)], brackets, [data.rate_of(collected.cells, link) for link in links])
        drawing.seen.append(_seen_brackets(brackets))
    else:
        drawing.gaps.append("no crossing panel because fewer than two rated links have valid timings.")
    for panel in spots[panels:]:
        panel.set_visible(False)
    decided = [p for p in points if p["agrees"] >= 0]
    if decided:
        right = sum(p["agrees"] for p in decided)
        drawing.seen.insert(
            0,
            (
                f"Over all rated links the sign of (speed-up − 1) agrees with the prediction in {right} of"
                f" {len(decided)} cells ({words.percent(right, len(decided))})."
            ),
        )
    return drawing


def _rated(cells):
    """Mask of the rows on a link that has a measured rate, or at least one in its name."""
    return np.array(
        [
            np.isfinite(rate) or np.isfinite(data.nominal_gbps(link))
            for rate, link in zip(cells["link_gbps"], cells["link"])
        ],
        dtype=bool,
    )


def _point(row):
    quotient = row["break_even_gbps"] / row["link_gbps"]
    return {
        "what": "cell",
        **_name(row),
        "link": row["link"],
        "link_gbps": row["link_gbps"],
        "predicted_gbps": row["break_even_gbps"],
        "speedup": row["speedup"],
        "quotient": quotient,
        "agrees": int((quotient > 1) == (row["speedup"] > 1)),
        "bracket_low_gbps": float("nan"),
        "bracket_high_gbps": float("nan"),
    }


_NAMED = ("family", "traffic", "label", "form", "protocol", "kind", "group", "layout", "shape", "tensor")


def _name(row):
    return {"codec_family": row["family"], **{k: row[k] for k in _NAMED[1:]}}


def _brackets(cells, links):
    """Per cell measured on two rated links or more: the rates between which its speed-up falls through 1. 0 or infinity
    where it pays on none or on all of them; cells whose speed-up crosses more than once are left out."""
    result = []
    names = (
        "traffic",
        "label",
        "family",
        "form",
        "protocol",
        "kind",
        "group",
        "layout",
        "shape",
        "tensor",
        "operation",
        "codec",
        "hidden",
        "seed",
    )
    for _, rows in cells.groups(*names):
        by_rate = sorted(
            (rows.where(link=link).median("link_gbps"), rows.where(link=link).median("speedup"))
            for link in links
            if link in rows["link"]
        )
        if len(by_rate) < 2:
            continue
        pays = [speedup > 1 for _, speedup in by_rate]
        if pays != sorted(pays, reverse=True):
            continue
        low = by_rate[sum(pays) - 1][0] if any(pays) else NEVER
        high = by_rate[sum(pays)][0] if not all(pays) else float("inf")
        first = rows.take([0]).rows(*_NAMED)[0]
        predicted = rows.median("break_even_gbps")
        result.append(
            {
                "what": "bracket",
                **_name(first),
                "link": "",
                "link_gbps": float("nan"),
                "predicted_gbps": predicted,
                "speedup": float("nan"),
                "quotient": float("nan"),
                "agrees": int(low <= max(predicted, NEVER) <= high),
                "bracket_low_gbps": low,
                "bracket_high_gbps": high,
            }
        )
    return result


def _limits(points):
    positive = [p["quotient"] for p in points if p["quotient"] > 0] or [1.0]
    left, right = style.log_limits(positive + [1.0])
    low, high = style.log_limits([p["speedup"] for p in points] + [1.0])
    return left, right, left / (right / left) ** 0.07, low, high


def _panel(axes, points, limits):
    left, right, gutter, low, high = limits
    axes.set(xscale="log", yscale="log", xlabel="predicted w* / link rate", ylabel="measured speed-up")
    axes.set_xlim(gutter / (right / left) ** 0.05, right)
    axes.set_ylim(low, high)
    style.number_ticks(axes.xaxis, left, right)
    style.number_ticks(axes.yaxis, low, high)
    axes.fill_between([1, right], 1, high, color="#e6f0f7", zorder=0.5, linewidth=0)
    axes.fill_between([gutter / (right / left) ** 0.05, 1], low, 1, color="#e6f0f7", zorder=0.5, linewidth=0)
    axes.axhline(1, color=style.INK, linewidth=0.8, zorder=1)
    axes.axvline(1, color=style.INK, linewidth=0.8, zorder=1)
    look = lambda p: {
        **style.point(p["codec_family"], p["form"], p["protocol"], p["kind"], size=22),
        "alpha": 0.8,
        "linewidths": 0.5,
    }
    style.scatter(
        axes, [(p["quotient"] if p["quotient"] > 0 else gutter, p["speedup"], look(p)) for p in points]
    )
    right_ones = sum(p["agrees"] for p in points)
    axes.text(
        0.03,
        0.97,
        f"agree: {right_ones} of {len(points)}",
        transform=axes.transAxes,
        va="top",
        fontsize=8.5,
        bbox={"facecolor": "white", "edgecolor": style.GRID, "pad": 2.5},
    )


def _bracket_panel(axes, brackets, rates):
    low, high = min(rates) / 6, max(rates) * 6
    positive = [b["predicted_gbps"] for b in brackets if b["predicted_gbps"] > 0]
    left, right = style.log_limits(positive + [min(rates), max(rates)], pad=0.06)
    gutter = left / (right / left) ** 0.06
    axes.set(xscale="log", yscale="log", xlabel="predicted w* (Gbit/s)", ylabel="measured crossing (Gbit/s)")
    axes.set_xlim(gutter / (right / left) ** 0.05, right)
    axes.set_ylim(low / 1.6, high * 1.6)
    style.number_ticks(axes.xaxis, left, right)
    style.number_ticks(axes.yaxis, low, high)
    diagonal = np.array([max(left, low / 1.6), min(right, high * 1.6)])
    axes.plot(diagonal, diagonal, color=style.INK, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1)
    for rate in rates:
        axes.axhline(rate, color="#9aa5b1", linewidth=0.8, zorder=1)
    ends = []
    for b in brackets:
        x, tint = b["predicted_gbps"] if b["predicted_gbps"] > 0 else gutter, style.colour(b["codec_family"])
        if b["bracket_low_gbps"] > 0 and np.isfinite(b["bracket_high_gbps"]):
            axes.plot(
                [x, x],
                [b["bracket_low_gbps"], b["bracket_high_gbps"]],
                color=tint,
                alpha=0.55,
                linewidth=1.3,
                solid_capstyle="butt",
            )
        else:
            pays = b["bracket_low_gbps"] > 0
            ends.append(
                (
                    x,
                    high if pays else low,
                    {"marker": "^" if pays else "v", "s": 20, "color": tint, "alpha": 0.7, "linewidths": 0},
                )
            )
    style.scatter(axes, ends)
    axes.text(
        0.03,
        0.985,
        "pays on every rated link",
        transform=axes.transAxes,
        va="top",
        fontsize=7.5,
        color=style.SOFT,
    )
    axes.text(
        0.97,
        0.015,
        "pays on none",
        transform=axes.transAxes,
        va="bottom",
        ha="right",
        fontsize=7.5,
        color=style.SOFT,
    )


def _seen(link, points):
    right = sum(p["agrees"] for p in points)
    text = (
        f"On {link} prediction and measurement agree in {right} of"
        f" {words.count(len(points), 'cell')} ({words.percent(right, len(points))})"
    )
    wrong = [p for p in points if not p["agrees"]]
    if wrong:
        near = [p for p in wrong if abs(p["speedup"] - 1) <= data.PAYS - 1]
        text += (
            f"; {len(near)} of the {len(wrong)} disagreements are speed-ups within"
            f" {100 * (data.PAYS - 1):.0f} % of 1"
        )
        far = max(wrong, key=lambda p: abs(np.log(p["speedup"])))
        text += (
            f", and the largest is {far['label']} ({far['traffic']}, {far['shape']}) with a measured"
            f" {words.number(far['speedup'], 3)}×"
        )
    return text + "."


def _seen_brackets(brackets):
    crossing = [b for b in brackets if b["bracket_low_gbps"] > 0 and np.isfinite(b["bracket_high_gbps"])]
    right = sum(b["agrees"] for b in brackets)
    always = sum(not np.isfinite(b["bracket_high_gbps"]) for b in brackets)
    never = sum(b["bracket_low_gbps"] <= 0 for b in brackets)
    return (
        f"Of {words.count(len(brackets), 'cell')} measured on several rated links, {len(crossing)} cross from"
        f" paying to not paying between two rates, {always} pay on all of them and {never} on none; w* lies"
        f" inside the measured bracket for {right} ({words.percent(right, len(brackets))})."
    )
