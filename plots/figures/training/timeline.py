"""One training step of every rank, uncompressed and compressed."""
import math

from plots.lib import plans, spans, style, words
from plots.lib.figure import Figure, Source

COLUMNS = ("plan", "link", "rank", "kind", "start_us", "end_us")
KINDS = ("forward", "backward", "encode", "decode", "transfer", "wait")
_BELOW = ("wait", "forward", "backward", "encode", "decode")  # in the order of painting


@Figure(
    title="One training step, rank by rank",
    order=160,
    reads=Source.TRAINING_RUNS,
    how_to_read=(
        "One lane per rank, both panels on the same scale. The broad band is what the rank does:"
        " computing (forward, backward with the optimiser), encoding, decoding; pale where it waits,"
        " white where nothing was recorded. The narrow line above it: at least one of its messages is"
        " under way (a receive counts from when it was asked for). Spans of a kind that lie closer than a"
        " thousandth of the step are drawn as one."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    runs = plans.load(collected)
    drawing.how_to_read += plans.processors(runs)
    chosen, reason = _choose(runs)
    if not chosen:
        return drawing.without_data(reason or plans.why_none(collected, "timeline", "timeline"))
    link, names = chosen
    if reason:
        drawing.gaps.append(reason)
    steps = {name: spans.of_one_run(runs.timeline.where(plan=name, link=link)) for name in names}
    end = max(float(table["end_us"].max()) for table in steps.values())
    for name, table in steps.items():
        drawing.rows += _rows(name, link, table, gap=1e-3 * end)
    ranks = {name: sorted({r["rank"] for r in drawing.rows if r["plan"] == name}) for name in names}
    handles = [
        style.plt.Rectangle((0, 0), 1, 1, color=style.TIMELINE_COLOURS[kind], label=kind) for kind in KINDS
    ]
    figure, axes = style.canvas(
        len(names),
        1,
        height=sum(0.75 + 0.26 * len(ranks[name]) for name in names),
        legend_rows=1,
        sharex=True,
        height_ratios=[0.75 + 0.26 * len(ranks[name]) for name in names],
    )
    style.legend(figure, handles, len(KINDS))
    drawing.figure = figure
    for panel, name in zip(axes[:, 0], names):
        rows = [r for r in drawing.rows if r["plan"] == name]
        _panel(panel, rows, ranks[name], end)
        plan = next(p for p in runs.plans if p.name == name)
        what = plan.described()
        panel.set_title(f"{name} on {link}" + (f": {what}" if plan.classes and len(what) < 100 else ""))
    axes[-1, 0].set_xlabel("time since the step began (ms)")
    drawing.seen = _seen(runs, link, names, drawing.rows)
    return drawing


def _choose(runs):
    """((link, plans), what is missing): the dense plan and the fastest compressed one, on the link that has both and on which
    the dense plan spends nearest to half of its step communicating: there both work and waiting are seen."""
    if not len(runs.timeline):
        return None, ""
    have = {}
    for (name, link), _ in runs.timeline.groups("plan", "link"):
        have.setdefault(link, []).append(name)
    order = {p.name: i for i, p in enumerate(runs.plans)}
    dense = runs.dense.name if runs.dense else None

    def fitness(link):
        time = runs.times.get((dense, link))
        share = abs(time.share - 0.5) if time and math.isfinite(time.share) else 1.0
        return dense not in have[link] or len(have[link]) < 2, share, plans.by_rate(link)

    link = min(have, key=fitness)
    speed = lambda name: runs.times[name, link].step_ms if (name, link) in runs.times else math.inf
    coded = sorted((n for n in have[link] if n != dense), key=lambda n: (speed(n), order[n]))
    names = ([dense] if dense in have[link] else []) + coded[: 1 if dense in have[link] else 2]
    missing = "" if dense in names else f"the uncompressed plan has no timeline on {link}."
    if len(names) == 1 and not missing:
        missing = f"no compressed plan has a timeline on {link}."
    return (link, names), missing


def _rows(plan, link, table, gap):
    rows = []
    kinds = [spans.kind_of(c, n) for c, n in zip(table["category"], table["name"])]
    table = table.with_column("kind", kinds)
    for (rank, kind), one in sorted(table.groups("rank", "kind")):
        if kind not in KINDS:
            continue
        rows += [
            {"plan": plan, "link": link, "rank": int(rank), "kind": kind, "start_us": start, "end_us": end}
            for start, end in spans.merged(one, gap)
        ]
    return rows


def _panel(axes, rows, ranks, end):
    for y, rank in enumerate(ranks):
        mine = [r for r in rows if r["rank"] == rank]
        for kind in (*_BELOW, "transfer"):
            bars = [
                (r["start_us"] / 1e3, (r["end_us"] - r["start_us"]) / 1e3) for r in mine if r["kind"] == kind
            ]
            band = (y - 0.42, 0.14) if kind == "transfer" else (y - 0.24, 0.62)
            if bars:
                axes.broken_barh(bars, band, facecolors=style.TIMELINE_COLOURS[kind], linewidth=0)
    axes.set_yticks(range(len(ranks)), [f"rank {r}" for r in ranks])
    axes.set_ylim(len(ranks) - 0.5, -0.6)
    axes.set_xlim(0, 1.01 * end / 1e3)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)


def _seen(runs, link, names, rows):
    seen = []
    ends = {}
    for name in names:
        mine = [r for r in rows if r["plan"] == name]
        ends[name] = max(r["end_us"] for r in mine)
        by_rank = {}
        for r in mine:
            if r["kind"] in ("forward", "backward"):
                by_rank[r["rank"]] = by_rank.get(r["rank"], 0.0) + r["end_us"] - r["start_us"]
        computing = [by_rank.get(rank, 0.0) / ends[name] for rank in sorted({r["rank"] for r in mine})]
        usual = runs.times.get((name, link))
        median = f" (median of all steps: {words.microseconds(1e3 * usual.step_ms)})" if usual else ""
        seen.append(
            f"'{name}': the step ends after {words.microseconds(ends[name])}{median}; the ranks compute"
            f" {_range(computing)} % of it."
        )
    if len(names) == 2:
        first, second = names
        word = "sooner" if ends[second] < ends[first] else "later"
        seen.append(
            f"This step of '{second}' ends {words.microseconds(abs(ends[first] - ends[second]))} {word} than"
            f" that of '{first}'."
        )
    return seen


def _range(shares):
    low, high = f"{100 * min(shares):.0f}", f"{100 * max(shares):.0f}"
    return low if low == high else f"{low} to {high}"
