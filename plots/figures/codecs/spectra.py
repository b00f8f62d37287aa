"""Singular values of weight gradients, boundary gradients and activations (raw and centred)."""
import numpy as np

from plots.lib import style, words
from plots.lib.figure import Figure, Heading, Source

PANELS = (
    ("weight_gradient", 0, "weight gradient", "#d55e00"),
    ("boundary_gradient", 0, "boundary gradient", "#cc79a7"),
    ("activation", 0, "activation, raw", "#0072b2"),
    ("activation", 1, "activation, centred", "#009e73"),
)
COLUMNS = ("what", "kind", "centred", "tensor", "step", "index", "position", "value")
ENERGY = 0.9


@Figure(
    title="How low-rank the traffic is: singular values",
    order=80,
    reads=Source.BENCHES,
    under=Heading.ERROR,
    how_to_read=(
        "Singular values divided by the largest, against their position in the spectrum (index / number"
        " of values). Dashed: the earliest captured step, solid: the latest; thin lines are single"
        " tensors, the thick line their median. Last panel: the share of the singular values that holds"
        " 90 % of the energy (rho90; 1 would be all of them), one dot per tensor and step. Raw"
        " activations may look low-rank because of their mean alone; centred ones have it removed."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    spectra = collected.spectra
    if not len(spectra):
        return drawing.without_data(
            "no data because the collected file holds no spectra (/spectra is empty): capture_traffic writes"
            " them."
        )
    figure, axes = style.canvas(
        1, 5, height=3.5, legend_rows=1, gridspec_kw={"width_ratios": [1, 1, 1, 1, 1.25]}
    )
    style.legend(
        figure,
        [
            style.Line2D([], [], color=style.SOFT, linestyle="--", label="earliest step"),
            style.Line2D([], [], color=style.SOFT, label="latest step"),
        ],
        2,
    )
    drawing.figure = figure
    finite = spectra["singular_value"][
        np.isfinite(spectra["singular_value"]) & (spectra["singular_value"] > 0)
    ]
    bottom = max(float(finite.min()), 1e-6) if len(finite) else 1e-3
    for panel, (kind, centred, name, tint) in zip(axes[0], PANELS):
        panel.set_title(name)
        here = spectra.where(kind=kind, centred=centred)
        if not len(here):
            reason = f"no data because /spectra has no {name}."
            style.empty_panel(panel, style.wrap(reason, 24))
            drawing.gaps.append(reason)
            continue
        _panel(panel, here, tint, bottom, drawing.rows)
    axes[0, 0].set_ylabel("singular value / largest")
    dots = _rho(spectra)
    drawing.rows += dots
    _rho_panel(axes[0, 4], dots)
    drawing.seen = _seen(dots)
    return drawing


def _curves(table):
    """Pairs ((tensor, step), values by index) of finite spectra."""
    for (tensor, step), rows in table.groups("tensor", "step"):
        values = rows["singular_value"][np.argsort(rows["index"], kind="stable")]
        if len(values) > 1 and np.isfinite(values).all():
            yield (tensor, int(step)), values


def _panel(axes, table, tint, bottom, drawn):
    steps = sorted(set(table["step"]))
    for step, line in {steps[0]: (0, (4, 2)), steps[-1]: "-"}.items():
        curves = [(key, values) for key, values in _curves(table.where(step=step))]
        for (tensor, _), values in curves:
            position = np.arange(len(values)) / len(values)
            axes.plot(position, values, color=tint, linewidth=0.6, alpha=0.4, linestyle=line)
            drawn += [
                _row("curve", table, tensor, step, i, float(p), float(v))
                for i, (p, v) in enumerate(zip(position, values))
            ]
        if len(curves) > 1:
            shared = np.linspace(0, 1, 101)
            middle = np.median([np.interp(shared, np.arange(len(v)) / len(v), v) for _, v in curves], axis=0)
            axes.plot(shared, middle, color=tint, linewidth=1.8, linestyle=line)
            drawn += [
                _row("median", table, "", step, i, float(p), float(v))
                for i, (p, v) in enumerate(zip(shared, middle))
            ]
    axes.set(yscale="log", ylim=(bottom * 0.8, 1.4), xlim=(0, 1), xlabel="index / number")
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    axes.minorticks_off()


def _row(what, table, tensor, step, index, position, value):
    return {
        "what": what,
        "kind": table["kind"][0],
        "centred": int(table["centred"][0]),
        "tensor": tensor,
        "step": int(step),
        "index": index,
        "position": position,
        "value": value,
    }


def _rho(spectra):
    """rho90 of every spectrum: the smallest share of the singular values whose squares sum to 90 % of the total."""
    rows = []
    for kind, centred, _, _ in PANELS:
        here = spectra.where(kind=kind, centred=centred)
        for (tensor, step), values in _curves(here):
            energy = np.cumsum(values.astype(float) ** 2)
            if energy[-1] > 0:
                count = int(np.searchsorted(energy, ENERGY * energy[-1] * (1 - 1e-12)) + 1)
                rows.append(_row("rho90", here, tensor, step, count, float("nan"), count / len(values)))
    return rows


def _rho_panel(axes, dots):
    axes.set_title("rho90 (for 90 % energy)")
    names = [name for kind, centred, name, _ in PANELS]
    for y, (kind, centred, _, tint) in enumerate(PANELS):
        here = [d for d in dots if (d["kind"], d["centred"]) == (kind, centred)]
        for i, dot in enumerate(here):
            spread = 0.0 if len(here) < 2 else 0.44 * (i / (len(here) - 1) - 0.5)
            axes.scatter(
                dot["value"], y + spread, s=20, color=tint, edgecolors="white", linewidths=0.5, zorder=3
            )
        if here:
            middle = float(np.median([d["value"] for d in here]))
            axes.plot([middle, middle], [y - 0.36, y + 0.36], color=style.INK, linewidth=1.4, zorder=4)
    axes.set_yticks(range(len(PANELS)), [style.wrap(n, 10) for n in names])
    axes.set_ylim(len(PANELS) - 0.4, -0.6)
    axes.set_xlim(0, max([0.2] + [1.1 * d["value"] for d in dots]))
    axes.set_xlabel("share of the values")
    axes.tick_params(axis="y", length=0)


def _seen(dots):
    medians = {}
    for kind, centred, name, _ in PANELS:
        values = [d["value"] for d in dots if (d["kind"], d["centred"]) == (kind, centred)]
        if values:
            medians[name] = float(np.median(values))
    if not medians:
        return ["No spectrum is complete enough for rho90."]
    seen = [
        "Share of singular values that holds 90 % of the energy, median over tensors and steps: "
        + words.listing([f"{name} {words.number(100 * value)} %" for name, value in medians.items()])
        + "."
    ]
    gradient, activation = medians.get("weight gradient"), medians.get("activation, centred")
    if gradient is not None and activation is not None:
        word = "fewer" if gradient < activation else "no fewer"
        seen.append(
            f"At this scale weight gradients need {word} directions than centred activations "
            f"(factor {words.number(activation / gradient if gradient else float('nan'))})."
        )
    raw = medians.get("activation, raw")
    if raw is not None and activation is not None and raw < 0.8 * activation:
        seen.append(
            "Raw activations look lower in rank than centred ones: a part of their energy is their mean."
        )
    return seen
