"""Made-up tables of the claims about compressed activations, in the shapes that the claims write; numbers of no meaning."""
import make_claims as made

SEEDS = ["seed 1", "seed 2", "seed 3"]
BASE = (2.00, 2.01, 1.99)


def losses(ground, arms):
    """`arms`: {arm: nats above dense}; seeds scatter by 0.002 around it."""
    rows = [("dense", list(BASE))]
    rows += [(arm, [loss + lost + 0.002 * (i - 1) for i, loss in enumerate(BASE)]) for arm, lost in arms.items()]
    return made.table("validation loss (nats per token), " + ground, SEEDS, rows)


def boundaries():
    """Two claims that share a comparison, and one of the other page."""
    return [
        made.claim("activation_compression.C17", figure="activation_losses", tables=[losses("activations, Top-K", {"Top-10 %, own masks": 0.03, "Top-5 %, own masks": 0.3})]),
        made.claim("activation_compression.C19", figure="activation_losses", tables=[losses("activations, Top-K", {"Top-10 %, shared mask": 0.02, "Top-10 %, own masks": 0.03})]),
        made.claim("low_bandwidth_pipeline.C20", figure="activation_losses", tables=[losses("race-s, boundary codecs", {"MXFP8": 0.001, "MXFP4": 0.04, "NVFP4": 0.02})]),
    ]


SIZES = {"auto-encoder, width 32": 0.16, "Top-K at 25 %": 0.15, "4 bits": 0.03, "auto-encoder, width 6": 0.35, "Top-K at 4.7 %": 0.39, "PowerSGD, rank 16": 0.17}


def sizes():
    """C1: codes of a quarter, a fifth and a twentieth of [256, 128] values."""
    rule = "a rule. Settings: global-batch 16, hidden 128, micro-batch 4, seq 64, steps 700. Arms: dense."
    return made.claim("activation_compression.C1", figure="activation_losses", rule=rule, tables=[losses("activations, equal bytes", SIZES)])


def places(layers=4):
    """Windows of a quarter lose 0.03 early and 0.01 late; the last n lose 0.01 each."""
    window = layers // 4
    name = lambda first, count: f"{first}" if count == 1 else f"{first}-{first + count - 1}"
    arms = {}
    for method, worse in (("auto-encoder, 5 %", 1.0), ("Top-5 %", 2.0), ("2 bits", 0.5)):
        for first, lost in ((0, 0.03), ((layers - window) // 2, 0.02)):
            arms[f"{method}, layers {name(first, window)}"] = worse * lost
        for quarters in (1, 2, 3, 4):
            n = window * quarters
            arms[f"{method}, layers {name(layers - n, n)}"] = worse * 0.01 * quarters
    ground = f"where activations are coded, {layers} layers"
    return made.claim("activation_compression.C3" + ("a" if layers == 4 else "b"), tables=[losses(ground, arms)])


KEPT = {"A2: auto-encoder, 9.8 %": 0.93, "T1: Top-K, 0.98 %": 0.2, "T4: Top-K, 9.8 %": 0.95, "R4: Random-K, 9.8 %": 0.5, "Q1: 2 bits": 0.7, "Q2: 4 bits": 1.01}
RATIOS = {"dense": 1.0, "A2: auto-encoder, 9.8 %": 1.9, "T1: Top-K, 0.98 %": 2.0, "T4: Top-K, 9.8 %": 1.7, "R4: Random-K, 9.8 %": 1.8, "Q1: 2 bits": 1.7, "Q2: 4 bits": 1.6}
TASKS = {"acc": ("matthews", 0.0, 0.4, True), "par": ("accuracy", 0.671, 0.15, True), "sim": ("pearson", 0.0, 0.6, True), "nli": ("accuracy", 0.338, 0.2, False)}  # chance, above it, counts


def fine_tuning():
    """C2: dense arms above chance, of which others keep a part; pre-training gains nothing on nli."""
    name = "fine-tuning, tp 2 x pp 2"
    tables = [
        made.table(f"gain of pre-training, {name}", ["gain", "low", "high", "chance", "counts"],
                   [(task, [0.1 if counts else 0.01, 0.05 if counts else -0.02, 0.15, chance, float(counts)]) for task, (_, chance, _, counts) in TASKS.items()]),
        made.table(f"link bytes of a step's activations, {name}", ["MB", "dense over sent"], [(arm, [8.0 / ratio, ratio]) for arm, ratio in RATIOS.items()]),
    ]  # fmt: skip
    for task, (metric, chance, above, counts) in TASKS.items():
        arms = {"dense": 1.0, **KEPT, "from scratch": 0.5 if counts else 0.98}
        rows = [(arm, [chance + above * kept + 0.01 * (i - 1) for i in range(3)]) for arm, kept in arms.items()]
        tables.append(made.table(f"{metric} of {task}, {name}", SEEDS, rows))
    return made.claim("activation_compression.C2a", figure="fine_tuning_drop", tables=tables)


CORNER = {"dense": 0.7, "A2: auto-encoder, 9.8 %": 0.69, "T1: Top-K, 0.98 %": 0.56, "Q2: 4 bits": 0.7}


def corner():
    """M1: one task, one seed, no pre-training."""
    name = "a small BERT from scratch"
    tables = [
        made.table(f"gain over the commonest label, {name}", ["gain", "low", "high", "chance", "counts"], [("pol", [0.152, None, None, 0.548, 1.0])]),
        made.table(f"link bytes of a step's activations, {name}", ["MB", "dense over sent"], [(arm, [8.0 / RATIOS[arm], RATIOS[arm]]) for arm in CORNER]),
        made.table(f"accuracy of pol, {name}", ["seed 1"], [(arm, [reached]) for arm, reached in CORNER.items()]),
    ]
    return made.claim("activation_compression.M1", figure="fine_tuning_drop", verdict="DIRECTION ONLY", profile="quick", tables=tables)


def changes():
    """The change of an activation: it falls, less in front of later layers."""
    rows = [(f"layer {b}, seed {s}", [0.9 / e**0.7 + 0.05 * b + 0.01 * s for e in range(2, 11)]) for b in (1, 2, 3) for s in (1, 2, 3)]
    return made.claim("activation_compression.C22", tables=[made.table("change of an activation since its last epoch", [f"epoch {e}" for e in range(2, 11)], rows)])


def links():
    """Speed-ups that fall with the link's rate, and grow with the messages."""
    columns = ["ranks", "link (Gbit/s)", "dense (ms)", "coded (ms)", "speed-up", "low", "high"]
    row = lambda name, ranks, gbps, gain: (name, [ranks, gbps, 100.0, 100.0 / gain, gain, gain - 0.02, gain + 0.02])
    table = lambda rows: [made.table("speed-up by coded activations", columns, rows)]
    of_rate = [row(f"{p} ranks, {g:g} Gbit/s", p, g, 0.97 + 0.1 * p / (1 + g)) for p in (2, 4) for g in (1, 10, 100, 1000, 2400)]
    of_size = [row(f"{b} x {s}", 2, 1, 1.0 + b * s / 40000) for s in (128, 512) for b in (8, 32)]
    slow = [row(f"{g:g} Gbit/s", 4, g, 1 + 3.5 / (1 + 10 * g)) for g in (10, 1, 0.5, 0.3, 0.1)]
    of_hidden = [row(f"hidden {h}", 2, 1, 1 + 20 / h) for h in (192, 256, 384, 512, 768)]
    timed = lambda identifier, rows: made.claim(identifier, basis="emulated link", tables=table(rows))
    return [timed("activation_compression.C7", of_rate), timed("activation_compression.C10", of_size), timed("activation_compression.C24", slow), timed("activation_compression.C8", of_hidden)]


def growing():
    """Measured sizes, the fitted model carried on, and clusters that grow: the gain falls as 1 / hidden."""
    measured = next(claim for claim in links() if claim["id"].endswith(".C8"))
    measured["tables"].append(made.table("speed-up by the fitted model", ["speed-up"], [(f"hidden {h}", [1 + 20 / h]) for h in (192, 768, 3072, 12288)]))
    clusters = [(f"hidden {h}", [n, 1 + 20 / h]) for h, n in ((6144, 1), (12288, 8), (25600, 64))]
    return [measured, made.claim("activation_compression.C9", basis="cost model", tables=[made.table("speed-up by the model", ["nodes", "speed-up"], clusters)])]


def everything():
    return [*boundaries(), sizes(), places(), places(8), fine_tuning(), corner(), changes(), *(claim for claim in links() if not claim["id"].endswith(".C8")), *growing()]
