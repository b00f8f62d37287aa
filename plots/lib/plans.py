"""Compression plans of training runs: what each compresses, its look in every figure, its loss curve and its step times.

A plan is one way to train the same model: what is compressed and with what. Losses stem from runs whose compute was real, times from
runs with timed compute; the plan's name joins them."""
import shlex
from dataclasses import dataclass, field

import numpy as np

from plots.lib import data, style, traffic_classes, words

STAGES = ("compute", "encode", "transfer", "decode", "wait")
DENSE_NAMES = ("dense", "none", "uncompressed")
# The same configuration of everything but compression and link: only such runs are compared.
_SETTING = ("ranks", "tp", "pp", "dp", "layers", "hidden", "batch", "seq")
_MIXED_COLOUR = "#882255"
_DASHES = ((0, ()), (0, (4, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
_MARKERS = {**traffic_classes.MARKERS, "several": "*", "": "."}


@dataclass
class Plan:
    """One plan. `classes` are the traffic classes it compresses, `codecs` what with (in the same order)."""

    name: str
    classes: tuple = ()
    codecs: tuple = ()
    look: dict = field(default_factory=dict)

    @property
    def dense(self):
        return not self.classes and self.name.lower() in DENSE_NAMES

    def described(self):
        """`dp_gradient by topk 0.01 +ef`; several classes with the same codec share it."""
        by_codec = {}
        for traffic, codec in zip(self.classes, self.codecs):
            by_codec.setdefault(data.compact(codec), []).append(traffic)
        return (
            "; ".join(f"{', '.join(classes)} by {codec}" for codec, classes in by_codec.items()) or "nothing"
        )


@dataclass
class Curve:
    """Loss of one plan: medians over its runs, by step. `sent` are bytes of all ranks up to the end of the step."""

    plan: Plan
    runs: int
    step: np.ndarray
    loss: np.ndarray
    validation: np.ndarray  # NaN where not validated
    sent: np.ndarray

    def validated(self):
        """(steps, losses, bytes) of the validated steps only."""
        known = np.isfinite(self.validation)
        return self.step[known], self.validation[known], self.sent[known]


@dataclass
class StepTime:
    """Time of one plan's step on one link: medians over its runs. `trusted`: no run's link was off its calibration."""

    plan: Plan
    link: str
    step_ms: float
    iqr_ms: float
    steps: int
    share: float
    parts: dict  # stage -> ms
    trusted: bool
    compute_scale: float  # computing took this many times what was measured alone


@dataclass
class Runs:
    """Everything that the training figures draw, of one setting."""

    plans: list
    curves: dict  # plan name -> Curve
    times: dict  # (plan name, link) -> StepTime
    links: list  # slowest first
    traffic: object  # Table /training_traffic of the setting
    timeline: object  # Table /timeline of the setting
    notes: list  # what was left out

    @property
    def dense(self):
        return next((p for p in self.plans if p.dense), None)


def load(collected):
    """The runs of the setting with the most plans."""
    keep, notes = _one_setting(collected)
    notes = notes + _failed(collected, keep)
    own = {
        name: (
            table.where([keep is None or cell in keep for cell in table["cell_id"]]) if len(table) else table
        )
        for name, table in (
            ("curve", collected.training_curve),
            ("time", collected.training_time),
            ("traffic", collected.training_traffic),
            ("timeline", collected.timeline),
        )
    }
    names = list(dict.fromkeys(n for table in own.values() for n in table.distinct("plan")))
    plans = sorted((_plan(name, own["traffic"]) for name in names), key=_order)
    _dress(plans)
    by_name = {p.name: p for p in plans}
    curves = {
        p.name: curve for p in plans if (curve := _curve(p, own["curve"].where(plan=p.name))) is not None
    }
    times = _times(by_name, own["time"], collected.training_cells)
    links = sorted({link for _, link in times}, key=by_rate)
    return Runs(plans, curves, times, links, own["traffic"], own["timeline"], notes)


def settings(collected):
    """Cell id -> what only runs that stand in one panel share: ranks, mesh, model and batch."""
    return {row["cell_id"]: tuple(row[name] for name in _SETTING) for row in collected.training_cells.rows("cell_id", *_SETTING)}


def _one_setting(collected):
    """(cell ids to draw or None for all, notes). Runs of another model or layout must not share a panel."""
    cells = collected.training_cells
    settings = cells.groups(*_SETTING) if len(cells) else []
    if len(settings) < 2:
        return None, []
    size = lambda group: (len(group[1].distinct("method")), len(group[1].distinct("cell_id")))
    key, chosen = max(settings, key=size)
    others = len(cells.distinct("cell_id")) - len(chosen.distinct("cell_id"))
    text = ", ".join(f"{name} {value}" for name, value in zip(_SETTING, key))
    return set(chosen["cell_id"]), [
        f"{others} training runs of another model or layout are not drawn; drawn are those with {text}."
    ]


def _failed(collected, keep):
    """Notes on trainings that failed and left no curve: what is drawn of their plans are the others, if any."""
    cells = collected.training_cells
    if not len(cells) or "repro" not in cells:
        return []
    lost = {}
    for row in cells.where(status=("FAILED", "TIMEOUT")).rows("cell_id", "repro"):
        words_of = shlex.split(row["repro"])
        if keep is None or row["cell_id"] in keep:
            lost.setdefault(words_of[words_of.index("--plan") + 1] if "--plan" in words_of else "a plan without a name", set()).add(row["cell_id"])
    left = set(collected.training_curve.distinct("plan"))
    return [
        f"{plan}: {words.count(len(ids), 'training')} failed and left no curve"
        + ("; what is drawn are its others." if plan in left else "; it never reaches any loss.")
        for plan, ids in lost.items()
    ]


def _plan(name, traffic):
    rows = traffic.where(plan=name)
    coded = {(r["traffic"], r["codec"]) for r in rows.rows("traffic", "codec") if r["codec"] not in ("", "none")}
    coded = sorted(coded, key=lambda pair: (class_rank(pair[0]), pair))
    return Plan(name, tuple(t for t, _ in coded), tuple(c for _, c in coded))


def class_rank(traffic):
    return traffic_classes.NAMES.index(traffic) if traffic in traffic_classes.NAMES else len(traffic_classes.NAMES)


def _order(plan):
    """Dense first, then by the class that is compressed, plans that compress several last."""
    several = len(set(plan.classes)) > 1
    first = class_rank(plan.classes[0]) if plan.classes else -1
    return (not plan.dense, several, first, data.method_order(plan.name, data.family_of(plan.name)))


def _dress(plans):
    """Colour is the codec family as in every figure, the marker the traffic class, dashes tell plans of one family apart."""
    seen = {}
    for plan in plans:
        families = {data.family_of(codec) for codec in plan.codecs}
        classes = set(plan.classes)
        family = "none" if not families else families.pop() if len(families) == 1 else "several"
        dash = _DASHES[seen.get(family, 0) % len(_DASHES)]
        seen[family] = seen.get(family, 0) + 1
        plan.look = {
            "color": _MIXED_COLOUR if family == "several" else style.colour(family),
            "linestyle": dash,
            "marker": _MARKERS.get("several" if len(classes) > 1 else next(iter(classes), ""), "P"),
            "linewidth": 2.2 if plan.dense else 1.4,
            "zorder": 2.5 if plan.dense else 3,
        }


def handles(plans):
    """Legend entries: the plan's line and its name."""
    return [style.Line2D([], [], markersize=5, label=p.name, **p.look) for p in plans]


def _curve(plan, rows):
    if not np.isfinite(rows["loss"]).any() and not np.isfinite(rows["validation_loss"]).any():
        return None
    steps = np.unique(rows["step"])
    loss, validation, sent = (_medians(steps, rows["step"], rows[name]) for name in ("loss", "validation_loss", "link_bytes"))
    return Curve(plan, len(rows.distinct("cell_id")), steps, loss, validation, sent)


def _medians(steps, at, values):
    """The median of the finite values at each of these steps, NaN where there is none: all at once, for a run has hundreds of steps."""
    known = np.isfinite(values)
    at, values = at[known], values[known].astype(float)
    order = np.lexsort((values, at))
    values = values[order]
    found, first, count = np.unique(at[order], return_index=True, return_counts=True)
    medians = np.full(len(steps), np.nan)
    medians[np.searchsorted(steps, found)] = (values[first + (count - 1) // 2] + values[first + count // 2]) / 2
    return medians


def _times(plans, table, cells):
    """Step times that mean something: timed compute, or real compute on no more ranks than cores (then the row has a share)."""
    usable = table.where(
        ((table["compute"] == "timed") | np.isfinite(table["communication_share"]))
        & np.isfinite(table["step_ms"])
        & (table["step_ms"] > 0)
    )
    off = set(
        cells.where(status="MISTRUSTED")["cell_id"]
    )  # some traffic class of the run, at its message size
    times = {}
    for (name, link), rows in usable.groups("plan", "link"):
        if "timed" in rows.distinct("compute"):
            rows = rows.where(compute="timed")
        times[name, link] = StepTime(
            plan=plans[name],
            link=link,
            step_ms=rows.median("step_ms"),
            iqr_ms=rows.median("step_iqr_ms"),
            steps=int(np.sum(rows["steps"])),
            share=rows.median("communication_share"),
            parts={stage: rows.median(f"{stage}_ms") for stage in STAGES},
            trusted=not off & set(rows["cell_id"]),
            compute_scale=rows.median("compute_scale"),
        )
    return times


def by_rate(link):
    rate = data.nominal_gbps(link)
    return (rate if np.isfinite(rate) else np.inf, link)


def why_none(collected, what, table):
    """Why a training figure is empty, from the statuses of the training runs or the missing table."""
    if len(collected.training_cells):
        failed = collected.training_cells.where(collected.training_cells["status"] != "OK")
        if len(failed):
            return data.why_none(collected.training_cells, what)
    return f"no data because the collected file holds no {what} (/{table} is empty): train_gpt writes them."


def reaches(x, losses, target):
    """x at which a curve first gets down to `target`, by linear interpolation; NaN where it never does."""
    for i, loss in enumerate(losses):
        if loss <= target:
            if i == 0:
                return float(x[0])
            share = (losses[i - 1] - target) / (losses[i - 1] - loss)
            return float(x[i - 1] + share * (x[i] - x[i - 1]))
    return float("nan")


# A loss that counts as the dense plan's: at most this far above its last validation loss.
NEAR = 0.02


def processors(runs):
    """A sentence on processors of another speed than the machine's, or nothing."""
    scales = sorted({time.compute_scale for time in runs.times.values() if np.isfinite(time.compute_scale)})
    if not scales or scales == [1.0]:
        return ""
    return f" All computing, codecs included, was stretched to {' or '.join(f'{s:g}' for s in scales)} times its duration on this machine's cores."


def target_of(runs):
    """The validation loss that plans are raced to: NEAR above the dense plan's last one; NaN without a dense curve."""
    dense = runs.curves.get(runs.dense.name) if runs.dense else None
    losses = dense.validated()[1] if dense else ()
    return (1 + NEAR) * float(losses[-1]) if len(losses) else float("nan")


def overview(runs):
    """(header, rows of text): what each plan compresses, where it ends, what it sends, how fast its step is on each link."""
    ends = {n: float(c.validated()[1][-1]) for n, c in runs.curves.items() if len(c.validated()[1])}
    sent = {n: float(c.sent[-1]) / len(c.step) for n, c in runs.curves.items() if np.isfinite(c.sent[-1])}
    dense = runs.dense.name if runs.dense else None
    header = ["plan", "compresses", "steps", "validation loss", "perplexity", "sent per step", "× fewer"]
    header += [f"step, {link}" for link in runs.links]
    rows = []
    for plan in runs.plans:
        end, bytes_ = ends.get(plan.name, float("nan")), sent.get(plan.name, float("nan"))
        row = [
            plan.name,
            plan.described(),
            len(runs.curves[plan.name].step) if plan.name in runs.curves else "n/a",
            words.number(end, 4),
            words.number(float(np.exp(end)), 4),
            words.megabytes(bytes_),
            words.number(sent.get(dense, float("nan")) / bytes_ if bytes_ else float("nan"), 3),
        ]
        for link in runs.links:
            time, base = runs.times.get((plan.name, link)), runs.times.get((dense, link))
            text = words.microseconds(1e3 * time.step_ms) if time else "n/a"
            if time and base and not plan.dense:
                text += f" ({factor(base.step_ms / time.step_ms)})"
            row.append(text + ("" if not time or time.trusted else " *"))
        rows.append(row)
    return header, rows


def named(names, note=None, limit=12):
    """Plans in a sentence, in quotes: a plan may well be called 'all'. `note`: what to say of each in brackets."""
    return words.listing([f"'{n}'" + (f" ({note(n)})" if note else "") for n in names], limit)


def signed(value):
    """+0.012; what rounds to zero is +0.000."""
    return f"{round(value, 3) + 0.0:+.3f}"


def no_verdict(runs, link):
    """(why a link allows no verdict on time, else empty; compressed plans that enter none). As in every figure, a time from a
    link that was off its calibration is drawn and marked, and decides nothing."""
    dense = runs.times.get((runs.dense.name, link)) if runs.dense else None
    if dense is None:
        return f"On {link} no uncompressed plan was timed: there is nothing to compare with.", []
    if not dense.trusted:
        return (
            f"On {link} the link was off its calibration in the uncompressed plan's run: no verdict on time.",
            [],
        )
    return "", [
        p.name for p in runs.plans if (p.name, link) in runs.times and not runs.times[p.name, link].trusted
    ]


def without_times(runs, link):
    """A note on the plans that have a loss curve and no valid step time on a link; empty when there are none."""
    missing = [name for name in runs.curves if (name, link) not in runs.times]
    return f"{link}: no valid step time of {named(missing)}." if missing else ""


def factor(value):
    """A speed-up of a whole step: two decimals, for they are often close to 1."""
    return f"{value:.2f}×" if np.isfinite(value) else "n/a"


def draw_target(axes, runs):
    """A hairline at the loss that plans are raced to."""
    target = target_of(runs)
    if np.isfinite(target):
        axes.axhline(target, color=style.SOFT, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1.5)
        axes.annotate(
            f"dense + {100 * NEAR:.0f} %",
            xy=(1, target),
            xycoords=("axes fraction", "data"),
            xytext=(-2, 2),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=7.5,
            color=style.SOFT,
        )
