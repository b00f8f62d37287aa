"""Optimus-CC's Table 2, the stacks against loss and time."""
import math

from plots.lib import claim_drawing, optimus_cc, style, words
from plots.lib.figure import Figure, Source

LOSSES = ("optimus_cc.C13",)
TIMES = ("optimus_cc.C14",)
COLUMNS = ("what", "where", "arm", "stack", "value", "low", "high", "speedup", "slow_speedup", "seeds", "kind", "origin")
NAN = float("nan")


@Figure(
    title="Optimus-CC's stacks: loss and time (Table 2's shape)",
    order=190,
    reads=Source.CLAIMS,
    how_to_read=(
        "Left: validation loss above the uncompressed arm, measured on a small GPT, with 95 % intervals over paired seeds; shaded is"
        " what the claims call no loss of quality. Then the time of a step per stack: timed on the emulated link (hollow), and by the"
        " event model for GPT-2.5B and GPT-8.3B on 128 ranks (dotted; speed-ups at both ends of an assumed rate of computing, the bar"
        " at its upper end). Loss and time are of different models and never of the paper's. The paper's values of its Table 2 are"
        " not available; a star would mark a published one."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    arms = optimus_cc.arms_of(claims, *LOSSES)
    times = _times(claims)
    if arms is None and not times:
        return drawing.skipped(claims.why_none(*LOSSES, *TIMES, what="losses or step times of stacks"))
    tables = (arms.tables if arms else []) + [t for t, *_ in times]
    drawing.rows = (_loss_rows(arms) if arms else []) + [r for entry in times for r in _time_rows(*entry)]
    if not arms:
        drawing.gaps.append(claims.why_none(*LOSSES, what="losses of training arms"))
    if not any(r["kind"] != "modelled" and r["what"] == "step" for r in drawing.rows):
        drawing.gaps.append("no timed steps: " + claims.why_none("optimus_cc.C14b", what="steps on the emulated link"))
    places = list(dict.fromkeys(r["where"] for r in drawing.rows))
    names = sorted({_place(r) for r in drawing.rows}, key=optimus_cc.order)
    handles = style.kind_handles({r["kind"] for r in drawing.rows}, measured=True)
    figure, axes = style.canvas(
        1,
        len(places),
        height=0.9 + 0.34 * len(names),
        legend_rows=1 if handles else 0,
        foot=claim_drawing.origin_note(tables),
        width=style.WIDTH if len(places) > 1 else 7.0,
        sharey=True,
        gridspec_kw={"width_ratios": [1.25 if p == "loss" else 1.0 for p in places]},
    )
    style.legend(figure, handles, 4)
    drawing.figure = figure
    tints = optimus_cc.colours(names)
    for panel, place in zip(axes[0], places):
        rows = [r for r in drawing.rows if r["where"] == place]
        if place == "loss":
            _losses(panel, rows, names, tints, optimus_cc.margin_of(arms.tables))
        else:
            _steps(panel, rows, names, tints)
        panel.set_title("loss above Baseline" if place == "loss" else place)
    axes[0, 0].set_yticks(range(len(names)), [optimus_cc.label(n) for n in names])
    axes[0, 0].set_ylim(len(names) - 0.5, -0.5)
    drawing.tables = [("Table 2's shape", *_table(claims, drawing.rows, arms))]
    drawing.seen = _seen(drawing.rows, arms)
    return claim_drawing.finish(drawing, claims, tables)


def _place(row):
    """The line of a row: stacks share theirs between arms and times."""
    return row["arm"] if row["what"] == "loss" and row["stack"] not in optimus_cc.COLOURS else row["stack"]


def _times(claims):
    """[(table, kind, {stack: (row's numbers, low end's speed-up)}, title)] of what is timed and modelled."""
    found = []
    for table in claims.tables(*TIMES, name="stacks"):
        if table.rows and table.claim.kind != "modelled" and table.column("step"):
            where = "emulated link" if table.claim.kind == "emulated" else "measured"
            found.append((table, table.claim.kind, [(label, values, NAN) for label, values in table.rows], f"step, {where}"))
    for table in claims.tables(*TIMES, name="128"):
        models = list(dict.fromkeys(label.partition(" ")[0] for label, _ in table.rows))
        for model in models:
            rows = [(label.partition(" ")[2], v) for label, v in table.rows if label.startswith(model + " ")]
            ends = sorted({table.number(v, "TFLOP/s") for _, v in rows})
            slow = {arm: table.number(v, "step") for arm, v in rows if table.number(v, "TFLOP/s") == ends[0]}
            base = slow.get(rows[0][0], NAN)
            fast = [
                (arm, v, base / slow[arm] if len(ends) > 1 and arm in slow else NAN)
                for arm, v in rows
                if not ends or table.number(v, "TFLOP/s") == ends[-1] or not math.isfinite(ends[-1])
            ]
            found.append((table, "modelled", fast, f"GPT-{model}, 128 ranks"))
    return found


def _row(**values):
    return {**dict.fromkeys(COLUMNS, ""), "low": NAN, "high": NAN, "speedup": NAN, "slow_speedup": NAN, "seeds": 0, **values}


def _loss_rows(arms):
    rows = []
    for arm in arms.ordered():
        mean, low, high, pairs = arms.difference(arm) if arms.dense else (NAN, NAN, NAN, 0)
        if math.isfinite(mean):
            origin = next(t.claim.origin for t in arms.tables if any(label == arm for label, _ in t.rows))
            if arm == arms.dense:
                low = high = NAN
            rows.append(
                _row(what="loss", where="loss", arm=arm, stack=optimus_cc.stack_of(arm), value=mean, low=low, high=high, seeds=pairs, kind="measured", origin=origin)
            )
    return rows


def _time_rows(table, kind, entries, where):
    rows, base = [], NAN
    for arm, values, slow in entries:
        step = table.number(values, "step")
        base = base if math.isfinite(base) else step
        low, high = (table.number(values, "low"), table.number(values, "high")) if kind != "modelled" else (NAN, NAN)
        if math.isfinite(step):
            rows.append(
                _row(what="step", where=where, arm=arm, stack=optimus_cc.stack_of(arm), value=step, low=low, high=high, speedup=base / step, slow_speedup=slow, kind=kind, origin=table.claim.origin)
            )
    return rows


def _losses(axes, rows, names, tints, margin):
    if math.isfinite(margin):
        axes.axvspan(-margin, margin, color="#e8eef4", zorder=0.5)
    y = [names.index(_place(r)) for r in rows]
    colours = [tints[_place(r)] for r in rows]
    claim_drawing.whiskers(axes, y, [r["low"] for r in rows], [r["high"] for r in rows], colours, horizontal=True)
    for at, r, tint in zip(y, rows, colours):
        axes.scatter(r["value"], at, **style.dot(tint))
    axes.axvline(0, color=style.SOFT, linewidth=1.0, zorder=1.5)
    reach = max([abs(v) for r in rows for v in (r["value"], r["low"], r["high"]) if math.isfinite(v)] + [margin if math.isfinite(margin) else 0.01])
    if math.isfinite(margin) and reach > 20 * margin:  # an arm that breaks training would hide the others
        axes.set_xscale("symlog", linthresh=margin, linscale=0.35)
        ticks = [s * t for t in (margin, 0.1, 0.5, 2.0) for s in (-1, 1) if t <= 1.2 * reach] + [0]
        axes.xaxis.set_major_locator(style.matplotlib.ticker.FixedLocator(sorted(set(ticks))))
        axes.xaxis.set_minor_locator(style.matplotlib.ticker.NullLocator())
        axes.xaxis.set_major_formatter(style.matplotlib.ticker.FuncFormatter(lambda v, _: f"{v:+g}" if v else "0"))
    lowest = min(-1.5 * margin if math.isfinite(margin) else 0, *(v for r in rows for v in (r["value"], r["low"]) if math.isfinite(v)))
    axes.set_xlim(1.15 * lowest, 1.25 * reach)
    axes.set_xlabel("nats per token, 95 %")


def _steps(axes, rows, names, tints):
    end = max(r["high"] if math.isfinite(r["high"]) else r["value"] for r in rows)
    unit, factor = ("s", 1e3) if end >= 2000 else ("ms", 1.0)
    for r in rows:
        y, tint = names.index(_place(r)), tints[_place(r)]
        axes.barh(y, r["value"] / factor, height=0.6, **style.bar(tint, r["kind"]))
        claim_drawing.whiskers(axes, [y], [r["low"] / factor], [r["high"] / factor], [style.INK], horizontal=True)
        reached = (r["high"] if math.isfinite(r["high"]) else r["value"]) / factor
        text = f"{words.number(r['value'] / factor, 3)} {unit}" + ("" if r["stack"] == optimus_cc.BASELINE else f"  {_factor(r)}")
        axes.text(reached + 0.03 * end / factor, y, text, va="center", fontsize=7.5)
    for y in set(range(len(names))) - {names.index(_place(r)) for r in rows}:
        axes.text(0.02 * end / factor, y, "–", va="center", fontsize=8, color=style.SOFT)
    axes.set_xlim(0, 2.1 * end / factor)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"step ({unit})")


def _factor(row):
    """`1.02–1.14×`: from the lower to the upper end of the assumed rate of computing, where there are two."""
    digits = 3 if row["kind"] == "modelled" else 2
    fast, slow = f"{row['speedup']:.{digits}f}", f"{row['slow_speedup']:.{digits}f}"
    return f"{fast}×" if fast == slow or not math.isfinite(row["slow_speedup"]) else f"{slow}–{fast}×"


def _table(claims, rows, arms):
    """(header, rows of text): loss, perplexity and times of every arm, with what the paper published where that was read."""
    places = [p for p in dict.fromkeys(r["where"] for r in rows) if p != "loss"]
    published = _published(claims)
    recollected = any(mark != "read" for _, mark in published.values())
    header = ["stack", "arm", "loss", "above Baseline [95 %]", "perplexity", *places]
    header.append("paper (recollected, unverified)" if recollected else "paper")
    lines = []
    for name in sorted({_place(r) for r in rows}, key=optimus_cc.order):
        loss = next((r for r in rows if r["what"] == "loss" and _place(r) == name), None)
        line = [optimus_cc.stack_of(name), loss["arm"] if loss else "not trained"]
        if loss:
            values = [v for v in arms.losses[loss["arm"]].values() if math.isfinite(v)]
            mean = math.fsum(values) / len(values)
            bounds = f" [{loss['low']:+.4f}, {loss['high']:+.4f}]" if math.isfinite(loss["low"]) else ""
            line += [f"{mean:.4f}", f"{loss['value']:+.4f}{bounds}", f"{math.exp(min(20.0, mean)):.3f}"]
        else:
            same = "as CB: FE changes no number (C6)" if name == "CB+FE" else "n/a"
            line += [same, "", ""]
        for place in places:
            time = next((r for r in rows if r["where"] == place and _place(r) == name), None)
            line.append(f"{words.number(time['value'], 4)} ms ({time['speedup']:.2f}×, {time['kind']})" if time else "–")
        line.append(published.get(optimus_cc.stack_of(name), ("not available", ""))[0])
        lines.append(line)
    return header, lines


def _published(claims):
    """{stack: (text, provenance)} of the paper's Table 2: read values only, recollected ones where they were asked for."""
    found = {}
    for row in claims.published:
        if row["paper"] == "Optimus-CC" and row["artifact"] == "Table 2" and row["row"] in optimus_cc.STACKS:
            unit = "%" if "%" in row["unit"] else ""
            text = f"{row['column']}: {row['value']} {unit}".strip()
            if row["row"] not in found or found[row["row"]][1] != "read":
                found[row["row"]] = (text, row["provenance"])
    return found


def _seen(rows, arms):
    seen = []
    losses = [r for r in rows if r["what"] == "loss" and r["stack"] != optimus_cc.BASELINE]
    if losses:
        each = [f"{optimus_cc.label(r['arm'])} {r['value']:+.4f}" for r in losses]
        seen.append(f"Validation loss above Baseline (nats per token, profile {arms.profile}): {words.listing(each, 12)}.")
    for place in dict.fromkeys(r["where"] for r in rows if r["what"] == "step"):
        speed = [f"{r['stack']} {r['speedup']:.3f}×" for r in rows if r["where"] == place and r["stack"] != optimus_cc.BASELINE]
        if speed:
            seen.append(f"Speed-up over Baseline, {place}: {words.listing(speed)}.")
    return seen
