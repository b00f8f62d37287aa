"""The training run whose traffic was captured."""
import numpy as np

from plots.lib import style, words
from plots.lib.entropy import entropy_of
from plots.lib.figure import Figure, Heading, Source

COLUMNS = ("what", "step", "value")
ENTROPIES = ("unigram", "bigram")


@Figure(
    title="The model behind the captured traffic: training loss",
    order=90,
    reads=Source.BENCHES,
    under=Heading.MODELS,
    how_to_read=(
        "Loss of the small GPT in nats per token, every step (thin) and as a running median of 15 steps"
        " (thick); horizontal lines are the entropies of the same text under a unigram and a bigram"
        " model: a model below the latter has learned more than pairs of neighbouring bytes."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    training = collected.training
    if not len(training):
        return drawing.without_data(
            "no data because the collected file holds no training steps (/training is empty): capture_traffic"
            " writes them."
        )
    order = np.argsort(training["step"], kind="stable")
    steps, loss = training["step"][order], training["loss"][order]
    known = np.isfinite(loss)
    if not known.any():
        return drawing.without_data("no data because no row of /training holds a finite loss.")
    if not known.all():
        drawing.gaps.append(f"{words.count(int((~known).sum()), 'step')} without a finite loss: not drawn.")
    steps, loss = steps[known], loss[known]
    figure, axes = style.canvas(1, 2, height=3.6, gridspec_kw={"width_ratios": [2.4, 1]})
    drawing.figure = figure
    smooth = np.array([np.median(loss[max(0, i - 7) : i + 8]) for i in range(len(loss))])
    drawing.rows = [{"what": "loss", "step": int(s), "value": float(v)} for s, v in zip(steps, loss)]
    drawing.rows += [
        {"what": "running_median", "step": int(s), "value": float(v)} for s, v in zip(steps, smooth)
    ]
    left = axes[0, 0]
    left.plot(steps, loss, color="#9fb3c8", linewidth=0.7)
    left.plot(steps, smooth, color="#243b53", linewidth=1.8)
    left.set(xlabel="optimiser step", ylabel="loss (nats per token)", title="loss")
    entropies = {
        name: value
        for name in ENTROPIES
        if (value := entropy_of(collected.training_attributes, name)) is not None
    }
    for name, value in entropies.items():
        left.axhline(
            value, color="#d55e00" if name == "bigram" else "#e69f00", linestyle=(0, (4, 2)), linewidth=1.2
        )
        left.annotate(
            f"{name} entropy {value:.2f}",
            xy=(1, value),
            xycoords=("axes fraction", "data"),
            xytext=(-2, 2),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=8,
        )
        drawing.rows.append({"what": f"{name}_entropy", "step": -1, "value": float(value)})
    if not entropies:
        drawing.gaps.append(
            "no entropy lines because the file holds no attribute with the unigram or bigram entropy of the"
            " text."
        )
    _speed(axes[0, 1], training, drawing)
    first, last = float(smooth[0]), float(smooth[-1])
    drawing.seen.append(
        f"Over {words.count(len(steps), 'step')} the loss falls from {loss[0]:.2f} to {last:.2f} nats per"
        " token (running median)."
    )
    if "bigram" in entropies:
        gap = entropies["bigram"] - last
        drawing.seen.append(
            f"It ends {abs(gap):.2f} nats {'below' if gap > 0 else 'above'} the bigram entropy of the text"
            + (
                ", so the captured tensors stem from a model that uses more context than one byte."
                if gap > 0
                else "; the captured tensors stem from a model that has not yet learned more than byte pairs."
            )
        )
    elif last >= first:
        drawing.seen.append("The loss does not fall: the captured tensors stem from an untrained model.")
    return drawing


def _speed(axes, training, drawing):
    order = np.argsort(training["step"], kind="stable")
    steps, speed = training["step"][order], training["tokens_per_second"][order]
    known = np.isfinite(speed) & (speed > 0)
    axes.set_title("throughput")
    if not known.any():
        style.empty_panel(axes, style.wrap("no data because no step carries tokens per second.", 30))
        return
    axes.plot(steps[known], speed[known] / 1e3, color="#7f9bb5", linewidth=0.9)
    axes.set(xlabel="optimiser step", ylabel="10³ tokens per second")
    axes.set_ylim(0, 1.15 * float(speed[known].max()) / 1e3)
    drawing.rows += [
        {"what": "tokens_per_second", "step": int(s), "value": float(v)}
        for s, v in zip(steps[known], speed[known])
    ]
    drawing.seen.append(
        f"The median throughput was {words.number(float(np.median(speed[known])))} tokens per second."
    )
