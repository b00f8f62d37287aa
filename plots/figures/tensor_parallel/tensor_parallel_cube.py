"""The cube of ranks, who holds which piece of a vector, and what every rank stores (after Figs. 1, 4 and 5 of the 3-D paper)."""
import re

from plots.lib import claim_drawing, style, words
from plots.lib.figure import Figure, Source

MAP, STORED = "tensor_parallel.M2", "tensor_parallel.C1"
COLUMNS = ("panel", "rank", "i", "j", "l", "quantity", "value", "kind", "origin")
PLANES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7")  # by i
TENSORS = ("X", "W", "Y")


@Figure(
    title="3-D tensor parallelism: the cube of ranks, owners of vector pieces, load balance",
    order=340,
    reads=Source.CLAIMS,
    how_to_read=(
        "Left: where rank i + q (j + q l) stands, one colour per i; the marked block is that of one rank. Middle: which ranks hold the"
        " pieces of a bias, by plane i: the diagonal l = j, each piece once, its first element written in. Right: elements of X, W and Y"
        " that a rank stores, over 1/q³ of the tensor: hollow, the classical algorithm, which keeps each tensor on one face; filled, the"
        " layouts; crosses, what claim C1 counted on running ranks."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    maps = [t for t in claims.tables(MAP, name="rank map") if t.rows]
    if not maps:
        return drawing.skipped(claims.why_none(MAP, what="a rank map"))
    table = max(maps, key=lambda t: len(t.rows))
    stored = [t for t in claims.tables(STORED, name="stored elements") if t.rows][:1]
    q = round(len(table.rows) ** (1 / 3))
    drawing.rows = _map_rows(table) + _balance_rows(table, q) + [r for t in stored for r in _stored_rows(t)]
    if not stored:
        drawing.gaps.append("Without counts of running ranks: " + claims.why_none(STORED, what="stored elements"))
    handles = [
        style.plt.Rectangle((0, 0), 1, 1, facecolor=style.SOFT, label="stored by the layouts"),
        style.plt.Rectangle((0, 0), 1, 1, facecolor="none", edgecolor=style.SOFT, linestyle=(0, (1, 1)), label="classical algorithm: on a face"),
    ]
    if stored:
        handles.append(style.Line2D([], [], marker="x", color=style.INK, linestyle="", markersize=5, label="counted on running ranks (C1)"))
    figure, axes = style.canvas(1, 3, height=3.9, legend_rows=1, foot=claim_drawing.origin_note([table, *stored]), width_ratios=(1.15, 1.0, 1.25))
    style.legend(figure, handles, 3)
    drawing.figure = figure
    _cube(axes[0, 0], drawing.rows, q)
    _owners(axes[0, 1], drawing.rows, q)
    _balance(axes[0, 2], drawing.rows, q)
    drawing.seen = _seen(drawing.rows, q)
    return claim_drawing.finish(drawing, claims, [table, *stored])


def _row(panel, rank, values, quantity, value, kind, origin):
    at = [int(values[k]) for k in ("i", "j", "l")] if values else [-1] * 3
    return dict(zip(COLUMNS, (panel, rank, *at, quantity, value, kind, origin)))


def _map_rows(table):
    rows = []
    for label, values in table.rows:
        rank = int(label.split()[-1])
        rows.append(_row("cube", rank, values, "rank", float(rank), "derived", table.claim.origin))
        if values["bias elements"] > 0:
            rows.append(_row("owners", rank, values, "first element of bias", values["first element of bias"], "derived", table.claim.origin))
            rows.append(_row("owners", rank, values, "bias elements", values["bias elements"], "derived", table.claim.origin))
    return rows


def _balance_rows(table, q):
    rows = []
    for tensor in TENSORS:
        column = f"{tensor} elements"
        whole = sum(values[column] for _, values in table.rows)
        for label, values in table.rows:
            rank = int(label.split()[-1])
            rows.append(_row("balance", rank, values, tensor, values[column] * q**3 / whole, "derived", table.claim.origin))
            rows.append(_row("balance", rank, values, f"{tensor}, classical", values[f"{column}, classical"] * q**3 / whole, "classical", table.claim.origin))
    return rows


def _stored_rows(table):
    """One row per side of the cube that was run: stored over 1/q^3, and most - least."""
    rows = {}
    for _, values in table.rows:
        q = int(values["q"])
        over, apart = table.number(values, "over 1/q^3"), table.number(values, "most - least")
        old = rows.get(q, (1.0, 0.0))
        rows[q] = (over if abs(over - 1) >= abs(old[0] - 1) else old[0], max(apart, old[1]))
    result = []
    for q, (over, apart) in sorted(rows.items()):
        result.append(_row("balance", -1, None, f"stored over 1/q^3, q = {q}", over, "measured", table.claim.origin))
        result.append(_row("balance", -1, None, f"most - least, q = {q}", apart, "measured", table.claim.origin))
    return result


# ---- panels -------------------------------------------------------------------------------------------------------------------------

_EI, _EJ, _EL = (0.92, -0.30), (-0.62, -0.46), (0.0, 1.0)  # how i, j and l run on the page


def _place(i, j, l):
    return tuple(i * _EI[k] + j * _EJ[k] + l * _EL[k] for k in (0, 1))


def _cube(axes, rows, q):
    own = sorted((r for r in rows if r["panel"] == "cube"), key=lambda r: (r["i"] + r["j"], r["l"]))
    marked = (min(1, q - 1), q - 1, q - 1)
    size, gap = 0.62, 1.0
    for r in own:
        at = (r["i"] * gap, r["j"] * gap, r["l"] * gap)
        chosen = (r["i"], r["j"], r["l"]) == marked
        tint = PLANES[r["i"] % len(PLANES)]
        for corners, shade in (
            (((1, 0, 0), (1, 1, 0), (1, 1, 1), (1, 0, 1)), 0.78),
            (((0, 1, 0), (1, 1, 0), (1, 1, 1), (0, 1, 1)), 0.90),
            (((0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1)), 1.0),
        ):
            points = [_place(*(a + size * c for a, c in zip(at, corner))) for corner in corners]
            pale = 0.0 if chosen else 0.62
            face = [shade * ((1 - pale) * c + pale) for c in style.matplotlib.colors.to_rgb(tint)]
            axes.add_patch(style.plt.Polygon(points, closed=True, facecolor=face, edgecolor=style.INK if chosen else tint, linewidth=1.1 if chosen else 0.5))
        # On a face that no other block covers; blocks inside have none.
        seen = (0.5, 0.5, 1.0) if r["l"] == q - 1 else (0.5, 1.0, 0.5) if r["j"] == q - 1 else (1.0, 0.5, 0.5) if r["i"] == q - 1 else None
        if seen:
            x, y = _place(*(a + size * c for a, c in zip(at, seen)))
            axes.text(x, y, str(r["rank"]), ha="center", va="center", fontsize=6.5, color="white" if chosen else style.INK)
    corners = [_place(a, b, c) for a in (0, q) for b in (0, q) for c in (0, q)]
    axes.set_xlim(min(x for x, _ in corners) - 0.3, max(x for x, _ in corners) + 0.3)
    axes.set_ylim(min(y for _, y in corners) - 0.5, max(y for _, y in corners) + 0.2)
    axes.set_aspect("equal")
    axes.set_axis_off()
    last = (q - 1) * gap + size
    for text, (x, y), turn in (
        ("i (weight line)", _place(0.5 * last, last + 0.45, -0.1), -18),
        ("j (input line)", _place(last + 0.5, 0.5 * last, -0.1), 36),
        ("l (output line)", _place(-0.15, last + 0.25, 0.5 * last), 90),
    ):
        axes.text(x, y, text, ha="center", va="center", fontsize=7.5, color=style.SOFT, rotation=turn)
    axes.set_title(f"ranks of a cube, q = {q}")


def _owners(axes, rows, q):
    first = {(r["i"], r["j"], r["l"]): r for r in rows if r["quantity"] == "first element of bias"}
    step = q + 0.8
    for i in range(q):
        for j in range(q):
            for l in range(q):
                held = first.get((i, j, l))
                x, y = l, (q - 1 - i) * step + (q - 1 - j)
                axes.add_patch(
                    style.plt.Rectangle((x, y), 0.92, 0.92, facecolor=PLANES[i % len(PLANES)] if held else "#f5f7fa", edgecolor=style.GRID, linewidth=0.8)
                )
                if held:
                    axes.text(x + 0.46, y + 0.46, f"{held['value']:.0f}", ha="center", va="center", fontsize=7.5, color="white")
        axes.text(-0.25, (q - 1 - i) * step + 0.5 * q, f"i = {i}", ha="right", va="center", fontsize=8)
    axes.text(0.5 * q, -0.55, "l", ha="center", va="center", fontsize=8, color=style.SOFT)
    axes.text(q + 0.25, 0.5 * q, "j", ha="left", va="center", fontsize=8, color=style.SOFT)
    axes.set_xlim(-1.6, q + 0.9)
    axes.set_ylim(-0.9, q * step)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title("holders of the bias")


def _balance(axes, rows, q):
    ranks = sorted({r["rank"] for r in rows if r["panel"] == "balance" and r["rank"] >= 0})
    tints = dict(zip(TENSORS, ("#56b4e9", "#e69f00", "#009e73")))
    for k, tensor in enumerate(TENSORS):
        base = (len(TENSORS) - 1 - k) * (q + 1.2)
        flat = {r["rank"]: r["value"] for r in rows if r["quantity"] == tensor}
        face = {r["rank"]: r["value"] for r in rows if r["quantity"] == f"{tensor}, classical"}
        axes.bar(ranks, [face[r] for r in ranks], bottom=base, width=0.8, facecolor="none", edgecolor=style.SOFT, linewidth=0.7, linestyle=(0, (1, 1)), zorder=2.5)
        axes.bar(ranks, [flat[r] for r in ranks], bottom=base, width=0.55, **style.bar(tints[tensor]))
        axes.axhline(base, color=style.SOFT, linewidth=0.6, zorder=2.2)
        axes.text(-1.1, base + 0.5 * q, tensor, ha="right", va="center", fontsize=9, color=style.INK)
    axes.set_yticks(
        [base + v for k in range(len(TENSORS)) for base in [k * (q + 1.2)] for v in (0, 1, q)],
        [t for _ in TENSORS for t in ("0", "1", f"{q}")],
    )
    axes.tick_params(axis="y", pad=12)
    measured = [(r["quantity"], r["value"]) for r in rows if r["kind"] == "measured" and r["quantity"].startswith("stored")]
    top = len(TENSORS) * (q + 1.2) - 1.2
    for n, (name, value) in enumerate(measured):
        side = name.split(", ")[1]
        at = len(ranks) + 1.2 + 1.3 * n
        for k in range(len(TENSORS)):
            axes.plot([at], [k * (q + 1.2) + value], marker="x", markersize=5, color=style.INK, linestyle="", zorder=4)
        axes.text(at, -0.35, re.sub(r"q = ", "", side), ha="center", va="top", fontsize=7.5)
    if measured:
        axes.text(len(ranks) + 1.2 + 0.65 * (len(measured) - 1), -1.25, "counted,\nq =", ha="center", va="top", fontsize=7, color=style.SOFT)
    axes.set_xlim(-1, len(ranks) + (1.2 + 1.3 * len(measured) if measured else 0))
    axes.set_ylim(-0.25, top + 0.5)
    axes.set_xticks(ranks[:: max(1, len(ranks) // 9)])
    axes.grid(axis="x", visible=False)
    axes.set(xlabel="rank", title="stored elements, over 1/q³ of the tensor")


def _seen(rows, q):
    holders = [r for r in rows if r["quantity"] == "first element of bias"]
    diagonal = all(r["j"] == r["l"] for r in holders)
    flat = [r["value"] for r in rows if r["panel"] == "balance" and r["quantity"] in TENSORS]
    classical = [r["value"] for r in rows if r["kind"] == "classical"]
    seen = [
        f"{len(holders)} of {q**3} ranks hold a piece of the bias, {'all on the diagonal l = j' if diagonal else 'not all on the diagonal'}.",
        f"By the layouts every rank stores {words.number(min(flat), 4)} to {words.number(max(flat), 4)} times 1/q³ of each tensor; the classical"
        f" algorithm {words.number(min(classical), 2)} to {words.number(max(classical), 2)} times.",
    ]
    measured = [r for r in rows if r["kind"] == "measured"]
    if measured:
        apart = max(r["value"] for r in measured if r["quantity"].startswith("most"))
        worst = max(abs(r["value"] - 1) for r in measured if r["quantity"].startswith("stored"))
        seen.append(f"Counted on running ranks (C1): off by {worst:.2g} of 1/q³ at most, most - least {apart:g} elements.")
    return seen
