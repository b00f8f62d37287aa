"""One step of a sharded training, stream by stream: passes, codecs, gathers of weights and reduce-scatters of gradients of one rank."""
from plots.lib import plans, spans, style, words
from plots.lib.figure import Figure, Source

COLUMNS = ("plan", "link", "rank", "stream", "kind", "start_us", "end_us")
GATHERS, SCATTERS = "param_all_gather", "grad_reduce_scatter"
LANES = ("passes", "codecs", "gathers", "reduce-scatters", "waiting")
_LABELS = {"passes": "passes", "codecs": "codecs", "gathers": "gathers of weights", "reduce-scatters": "reduce-scatters", "waiting": "waiting"}
_LANE_OF = {"forward": "passes", "backward": "passes", "encode": "codecs", "decode": "codecs", "wait": "waiting"}
_LEGEND = ("forward", "backward", "encode", "decode", "transfer", "wait")
MOST = 3  # plans


@Figure(
    title="One step of sharded training, stream by stream",
    order=165,
    reads=Source.TRAINING_RUNS,
    how_to_read=(
        "What one rank does at a time, a lane for each of its streams: the passes (forward; backward with the optimiser), its codecs, gathers"
        " of weights and reduce-scatters of gradients that are under way (from when they were asked for), and where it waits. Gathers and scatters beside"
        " passes are hidden; those beside waiting cost time. Spans of a lane that lie closer than a thousandth of the step are drawn as one."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    link, names, others = _choose(collected)
    if not names:
        return drawing.without_data("no data because the file has no timeline of a step that gathers weights and scatters gradients (a timed train_gpt with --zero-stage 3 and --timeline true).")
    if others:
        drawing.gaps.append(f"{words.count(others, 'sharded step')} of another model or layout on {link} not drawn.")
    steps = {name: _step(collected.timeline.where(plan=name, link=link)) for name in names}
    end = max(float(table["end_us"].max()) for table in steps.values())
    for name, table in steps.items():
        drawing.rows += _rows(name, link, table, 1e-3 * end)
    figure, axes = style.canvas(len(names), 1, height=1.75 * len(names), legend_rows=1, sharex=True)
    style.legend(figure, [style.plt.Rectangle((0, 0), 1, 1, color=style.TIMELINE_COLOURS[kind], label=kind) for kind in _LEGEND], len(_LEGEND))
    drawing.figure = figure
    for panel, name in zip(axes[:, 0], names):
        mine = [r for r in drawing.rows if r["plan"] == name]
        _panel(panel, mine, end)
        panel.set_title(f"{name} on {link}, rank {mine[0]['rank']}")
        drawing.seen.append(_seen(name, mine))
    axes[-1, 0].set_xlabel("time since the step began (ms)")
    return drawing


def _choose(collected):
    """(link, plans, plans left out) of sharded steps of one model and layout: those on the link that has most of them, the slowest of such; a plan without codecs first, then by name."""
    setting, found = plans.settings(collected), {}
    for (name, link), rows in collected.timeline.groups("plan", "link") if len(collected.timeline) else ():
        step = _step(rows)
        if {"gathers", "reduce-scatters"} <= {_stream(c, n)[0] for c, n in zip(step["category"], step["name"])}:
            found.setdefault((link, setting.get(step["cell_id"][0], ())), []).append(("encode" in set(step["category"]), name))
    if not found:
        return "", [], 0
    link, chosen = min(found, key=lambda key: (-min(MOST, len(found[key])), plans.by_rate(key[0]), str(key[1])))
    others = sum(len(steps) for (where, other), steps in found.items() if where == link and other != chosen)
    return link, [name for _, name in sorted(found[link, chosen])][:MOST], others


def _step(table):
    """Spans of one run and one rank, the lowest that has any."""
    table = spans.of_one_run(table)
    return table.where(rank=int(min(table["rank"]))) if len(table) else table


def _stream(category, name):
    """(lane, kind) of a span; messages of other classes stand in no lane."""
    if category == "transfer":
        return {GATHERS: "gathers", SCATTERS: "reduce-scatters"}.get(name.split()[0]), category
    kind = spans.kind_of(category, name)
    return _LANE_OF.get(kind), kind


def _rows(plan, link, table, gap):
    streams = [_stream(c, n) for c, n in zip(table["category"], table["name"])]
    table = table.with_column("stream", [lane or "" for lane, _ in streams]).with_column("kind", [kind for _, kind in streams])
    rank = int(table["rank"][0])
    return [
        {"plan": plan, "link": link, "rank": rank, "stream": lane, "kind": kind, "start_us": start, "end_us": end}
        for (lane, kind), one in sorted(table.groups("stream", "kind"))
        if lane
        for start, end in spans.merged(one, gap)
    ]


def _panel(axes, rows, end):
    for y, lane in enumerate(LANES):
        for kind in _LEGEND:
            bars = [(r["start_us"] / 1e3, (r["end_us"] - r["start_us"]) / 1e3) for r in rows if r["stream"] == lane and r["kind"] == kind]
            if bars:
                axes.broken_barh(bars, (y - 0.36, 0.72), facecolors=style.TIMELINE_COLOURS[kind], linewidth=0)
    axes.set_yticks(range(len(LANES)), [_LABELS[lane] for lane in LANES])
    axes.set_ylim(len(LANES) - 0.5, -0.5)
    axes.set_xlim(0, 1.01 * end / 1e3)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)


def _seen(name, rows):
    end = max(r["end_us"] for r in rows)
    share = lambda lane: 100 * _covered(r for r in rows if r["stream"] == lane) / end
    lanes = words.listing([f"{_LABELS[lane]} {share(lane):.0f} %" for lane in LANES], len(LANES))
    return f"'{name}': the step ends after {words.microseconds(end)}; of it {lanes}."


def _covered(rows):
    """Microseconds that any of these rows cover."""
    total, until = 0.0, 0.0
    for start, end in sorted((r["start_us"], r["end_us"]) for r in rows):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
