"""Error against ratio: which points no other beats (more ratio, less error), and the axes that figures of them share. Points are dictionaries with
`ratio` and the error's column; an error of 0 is drawn on a line of its own below all others."""
from plots.lib import style


def mark_front(points, error):
    """Sets `on_front` of each: 1 where no other is at least as good in both and better in one."""
    for point in points:
        point["on_front"] = int(not any(_beats(other, point, error) for other in points))


def front(points, error):
    """Those on the front, by rising ratio."""
    return sorted((p for p in points if p["on_front"]), key=lambda p: (p["ratio"], p[error]))


def _beats(a, b, error):
    return a["ratio"] >= b["ratio"] and a[error] <= b[error] and (a["ratio"] > b["ratio"] or a[error] < b[error])


def scale_axes(axes, points, error, xlabel, ylabel):
    """Logarithmic axes around the points. Returns the function that gives a point's height."""
    positive = [p[error] for p in points if p[error] > 0]
    low, high = style.log_limits(positive) if positive else (1e-3, 1.0)
    floor = low / (high / low) ** 0.08
    exact = any(p[error] == 0 for p in points)
    axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
    left, right = style.log_limits([p["ratio"] for p in points] + [1.0])
    axes.set_xlim(left, right)
    axes.set_ylim(floor / (high / low) ** 0.06 if exact else low, high)
    style.number_ticks(axes.xaxis, left, right)
    if high / low < 30:
        style.number_ticks(axes.yaxis, low, high)
    axes.minorticks_off()
    axes.axvline(1, color="#9aa5b1", linewidth=0.8, zorder=1)
    if exact:
        axes.axhline(floor, color="#9aa5b1", linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
        note(axes, floor, "exact (0)")
    return lambda p: p[error] if p[error] > 0 else floor


def note(axes, height, text):
    """A few words above a horizontal line, at the right edge."""
    axes.text(0.995, height, text, transform=axes.get_yaxis_transform(), ha="right", va="bottom", fontsize=7.5, color=style.SOFT)


def draw_front(axes, points, error, place):
    """The stepped line: the least error that a ratio costs."""
    best = front(points, error)
    axes.step(
        [p["ratio"] for p in best],
        [place(p) for p in best],
        where="pre",
        color=style.INK,
        linewidth=1.0,
        linestyle=(0, (4, 2)),
        alpha=0.65,
        zorder=1.5,
    )
