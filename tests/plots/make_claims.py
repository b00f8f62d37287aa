"""Made-up claims.json files: the shapes of tables that the claims write, with numbers of no meaning."""
import json
import math
import os

import numpy as np
from support import scratch_folder

from plots.lib import claims as claims_of

STEPS = (30, 60, 90, 120, 150)
ARMS = {
    "dense": 0.0,
    "CB rank 2, epilogue": 0.004,
    "CB rank 2, all": 0.05,
    "CB rank 2 without LEP, epilogue": 0.012,
    "CB+FE+SC": 0.009,
    "naive ranks 2, 16": 0.31,
}
STACKS = ("Base", "CB", "CB+FE", "CB+FE+SC")


def measure(name, value, low=None, high=None, margin=None, unit=""):
    return {"name": name, "value": value, "low": low, "high": high, "margin": margin, "unit": unit, "symbol": ""}


def table(name, columns, rows):
    return {"name": name, "columns": list(columns), "rows": [{"label": label, "values": list(values)} for label, values in rows]}


def claim(identifier, verdict="CONFIRMED", basis="training", tables=(), measures=(), profile="standard", **more):
    return {
        "id": identifier, "statement": f"Statement of {identifier}.", "provenance": "read: the paper's abstract page", "rule": "a rule",
        "basis": basis, "profile": profile, "when": "2026-11-20T10:11:12Z", "verdict": verdict, "because": f"because of {identifier}",
        "measures": list(measures), "tables": list(tables), "rule_hash": "0123456789abcdef", "registered": "2026-11-19", "rule_changed": "", "changes": [],
        "cells": [], "command": f"claims run {identifier}", "figure": "", "earlier": [], **more,
    }  # fmt: skip


def losses(rng, arms, seeds=5, ground="M = 8, from scratch"):
    """The two tables of training arms on one ground."""
    final = [(a, 1.9 + 0.01 * np.arange(seeds) + up + 0.002 * rng.standard_normal(seeds)) for a, up in arms.items()]
    curves = [(a, [1.9 + up + 80.0 / (s + 30) for s in STEPS]) for a, up in arms.items()]
    return [
        table(f"validation loss (nats per token), {ground}", [f"seed {i + 1}" for i in range(seeds)], [(a, map(float, v)) for a, v in final]),
        table(f"validation loss over steps, {ground}", [f"step {s}" for s in STEPS], curves),
    ]


def quality(rng, arms=None):
    """C1 and C2 share arms; those of C13 are trained on two replicas."""
    arms = arms or ARMS
    some = lambda *words: {a: v for a, v in arms.items() if a == "dense" or any(w in a for w in words)}
    margin = measure("L(CB rank 2, epilogue) - L(dense)", 0.004, 0.001, 0.007, 0.02, "nats per token")
    return [
        claim("optimus_cc.C1a", tables=losses(rng, some("CB rank 2, epilogue")), measures=[margin]),
        claim("optimus_cc.C2b", "INCONCLUSIVE", tables=losses(rng, some("CB rank 2, epilogue", "without LEP"))),
        claim("optimus_cc.C1d", tables=losses(rng, {"dense": 0.0, "CB rank 2, epilogue": 0.03, "CB rank 8, epilogue": 0.004}, ground="M = 16, in training"), measures=[margin]),
        claim("optimus_cc.C1b", tables=losses(rng, some(", all")), measures=[margin]),
        claim("optimus_cc.C13", tables=losses(rng, some("CB+FE+SC", "naive"), ground="M = 8, from scratch, D = 2"), measures=[margin]),
    ]


def uniform(rng):
    ranks = {1: 40, 2: 16, 3: 16}
    arms = {"dense": 0.0}
    for k, rank in ranks.items():
        arms[f"SC {k} stages rank 16"] = 0.01 * k
        arms[f"uniform rank {rank}"] = 0.02 + 0.3 / rank
    times = table(
        "step time by the event model",
        ["stages K", "SC (ms)", "uniform rank", "uniform (ms)"],
        [(f"SC {k} stages rank 16", [k, 200.0 - 20 * k, rank, 201.0 - 20 * k]) for k, rank in ranks.items()],
    )
    return claim("optimus_cc.C9", "NOT REPRODUCED AT THIS SCALE", tables=[*losses(rng, arms), times])


def pilot():
    """M4: losses without compression by learning rate, three seeds."""
    rows = [(f"{rate:g}", [rate, mean, mean - 0.004, mean, mean + 0.004]) for rate, mean in ((0.001, 1.86), (0.003, 1.61), (0.006, 1.53), (0.01, 1.54))]
    used = measure("rate used by all arms", 0.006)
    columns = ["learning rate", "mean", "seed 1001", "seed 1002", "seed 1003"]
    return claim("optimus_cc.M4", tables=[table("pilot: validation loss of the dense arm by learning rate (nats per token)", columns, rows)], measures=[used])


def stages(missing=()):
    """Three settings of C8 on the emulated link; the settings in `missing` were not measured."""
    rows, measures = [], []
    for tb, star in ((87.0, 1), (26.0, 2), (13.0, 4)):
        measures.append(measure(f"K* at t_dp = 46.1 ms, t_dp' = 12.5 ms, tb = {tb:g} ms", star, unit="stages"))
        for k in range(5):
            step = 400.0 + 4 * tb - 10.0 * min(k, star)
            timed = [None] * 3 if tb in missing else [step, step - 1.5, step + 1.2]
            rows.append((f"tb {tb:g} ms, K = {k}", [tb, k, star, *timed, step - 2]))
    columns = ["tb (ms)", "K", "K*", "step (ms)", "low", "high", "model (ms)"]
    return claim("optimus_cc.C8b", basis="emulated link", tables=[table("sweep of K", columns, rows)], measures=measures)


def stacks():
    """C14 by the model and on the emulated link, with Fig. 10's parts."""
    columns = ["step (ms)", "low", "high", "model (ms)", "pp_forward (ms)", "pp_backward (ms)", "dp_gradient (ms)", "embedding (ms)", "the rest (ms)"]
    timed = []
    for i, name in enumerate(STACKS):
        parts = [20.0, 18.0 - 4 * min(i, 1), 60.0 - 40 * (i == 3), 12.0 - 4 * (i > 1)]
        step = 300.0 + sum(parts)
        timed.append((name, [step, step - 2, step + 3, step - 4, *parts, 300.0]))
    modelled = []
    parts_of = ["tensor sums (ms)", "forward messages (ms)", "backward messages (ms)", "gradient sums (ms)", "embedding (ms)", "the rest (ms)"]
    for model, size in (("2.5B", 1.0), ("8.3B", 2.5)):
        for tflops in (10.0, 70.0):
            for i, name in enumerate(STACKS):
                parts = [size * v for v in (900.0, 80.0, 80.0 - 10 * min(i, 1), 600.0 - 300 * (i == 3), 30.0 - 10 * (i > 1), 60000.0 / tflops)]
                modelled.append((f"{model} {name}", [tflops, sum(parts), *parts]))
    return [
        claim("optimus_cc.C14a", basis="event model", profile="smoke", tables=[table("128 ranks by the event model", ["TFLOP/s (assumed)", "step (ms)", *parts_of], modelled)]),
        claim("optimus_cc.C14b", basis="emulated link", tables=[table("stacks on the emulated link", columns, timed)]),
    ]


def errors(rng):
    pairs = [(f"pair {i + 1}", [at, *(float(s * rng.standard_normal()) for s in (0.02, 1e-9, 1e-4))]) for at in (10, 50, 100) for i in range(40)]
    names = ("input of the last stage", "input of layer 2", "input of layer 2's attention projection")
    others = [(n, [at, 0.001 * i, 0.001 * i - 0.004, 0.001 * i + 0.004, 0.02, 0.01]) for at in (10, 50, 100) for i, n in enumerate(names)]
    return claim(
        "optimus_cc.C10",
        tables=[
            table("error and activation, seed 1", ["training (%)", "cosine", "mean of e", "mean of dX"], pairs),
            table("other activations", ["training (%)", "mean cosine", "low", "high", "RMS of the cosine", "|mean(dX)|/rms(dX)"], others),
        ],
        measures=[measure("mean cosine of e_i and X_i - X_{i+1} at 10 %", 0.001, -0.003, 0.004, 0.02)],
    )


def memory():
    rows = [("dense", 0.0, 0.0)]
    rows += [(f"CB rank 2{lep}, {mode}", 0.01, 0.25 * (not lep)) for mode in ("epilogue", "all") for lep in (" without LEP", "")]
    stages = [(arm, [(8.0 if s in (0, 3) else 6.0) + scratch + (chunk if s else 0.0) for s in range(4)]) for arm, scratch, chunk in rows]
    return claim("optimus_cc.C12", "PASS", "exact", tables=[table("peak memory", [f"stage {s} (MiB)" for s in range(4)], stages)], profile="quick")


def compressor(rates=(0.1, 1.0, 10.0)):
    """C15 with its points, and the compressor's throughput at two shapes; a gain without a number was not measured."""
    ranks = (8, 16, 24, 32, 40)
    columns = ["rank", "compress (Gbit/s)", "decompress (Gbit/s)", "theta (Gbit/s)"]
    tables = [
        table(f"compressor, {shape}", columns, [(f"rank {r}", [r, f * 60 / r, f * 300 / r, f * 50 / r]) for r in ranks])
        for shape, f in (("1024 x 1920", 1.0), ("1024 x 3072", 1.2))
    ]
    points = []
    for gbps in rates:
        for r in ranks:
            rho, theta = 667.8 / r, 50.0 / r
            predicted = 1 / gbps / (1 / (rho * gbps) + 1 / theta) - 1
            measured = None if (gbps, r) == (10.0, 40) else 0.9 * (predicted + 1) - 1
            points.append((f"rank {r} at {gbps:g} Gbit/s", [r, gbps, theta, gbps * rho / (rho - 1), predicted, measured, 1.0]))
    names = ["rank", "link (Gbit/s)", "theta (Gbit/s)", "w rho/(rho-1) (Gbit/s)", "predicted gain", "measured gain", "judged"]
    tables.append(table("compression pays", names, points))
    return claim("optimus_cc.C15a", "PASS", "emulated link", tables=tables)


def model():
    """M1 on the emulated link, M2 between namespaces."""
    steps = lambda where, late: [(f"Base on {where}", [102.0 + late, 101.0, 104.0 + late, 100.0, -0.02]), (f"CB on {where}", [97.0, 96.0, 98.0, 99.0, 0.02])]
    columns = ["measured (ms)", "low", "high", "predicted (ms)", "distance"]
    savings = [("CB+FE+SC after Base", [22.0, 20.0, 25.0, 20.0, 0.2, 0.1, 1.0]), ("CB after Base", [0.5, 0.1, 1.0, 1.0, 0.01, -0.5, 0.0])]
    saved = table("savings measured and predicted", ["measured (ms)", "low", "high", "predicted (ms)", "of the step", "distance", "judged"], savings)
    timed = lambda where, late=0.0: table("steps measured and predicted", columns, steps(where, late))
    return [
        claim("optimus_cc.M1", "PASS", "emulated link", tables=[timed("emulated:400mbit"), saved]),
        claim("optimus_cc.M2", "FAIL", "namespaces", tables=[timed("netns:1gbit", 15.0)]),
    ]


def exposure():
    """C5c and C5f: on the emulated link and between namespaces."""
    columns = [
        "c/tf", "blocking", "step (ms)", "epilogue saves (ms)", "epilogue low", "epilogue high", "(P-1)(c-c') (ms)", "model, epilogue (ms)", "all saves (ms)",
        "all low", "all high", "model, all (ms)",
    ]  # fmt: skip
    rows = [(f"c/tf = {share:g}", [share, 0.0, 800.0, 28 * share, 27 * share, 29 * share, 29 * share, 28.5 * share, 130 * share, 128 * share, 132 * share, 131 * share]) for share in (0.1, 0.3, 1.0)]
    made = [table("savings of backward compression", columns, rows)]
    return [claim("optimus_cc.C5c", basis="emulated link", tables=made), claim("optimus_cc.C5f", basis="namespaces", tables=made)]


def sketch():
    """Lanes that decode: a curve per setting, steeper with more rows, all through one half at a load of 0.8."""
    steep = {"K = 1152": 40, "K = 18864": 200, "K = 200000": 800}
    settings = [f"{rows}, c = {c}" for rows in steep for c in (2, 10)]
    at = lambda load, setting: 1 / (1 + math.exp(min(700.0, steep[setting.split(",")[0]] * (load - 0.805))))
    rows = [("", [p / 100, *(at(p / 100, s) for s in settings)]) for p in range(50, 91)]
    return claim("gradient_compression.C1", basis="exact", profile="quick", tables=[table("share of lanes that decode", ["load", *settings], rows)])


def replica_losses():
    """Two claims on one comparison, which share arms and cells, and one on another; "TLq" loses 1 % in the mean, "TLq-HS" nothing. The second has two seeds only."""
    seeds = ["seed 1", "seed 2", "seed 3"]
    base = ("base", [1.50, 1.51, 1.49])
    worse = lambda name, parts: (name, [loss * (1 + part) for loss, part in zip(base[1], parts)])
    tlq, smooth, eight = worse("TLq", (0.010, 0.011, 0.009)), worse("TLq-HS", (0.001, 0.0, -0.001)), worse("8 and 8 bits", (0.0005, 0.0, 0.0))
    losses = lambda name, rows, of=seeds: table("validation loss (nats per token), " + name, of, rows)
    return [
        claim("sharded_compression.C10", basis="training", figure="replica_losses", tables=[losses("2 nodes of 2", [base, tlq, smooth, eight])]),
        claim("sharded_compression.C11", basis="training", figure="replica_losses", tables=[losses("2 nodes of 2", [(arm, of[:2]) for arm, of in (base, smooth, worse("SDP4Bit", (0.002, 0.003, 0.002)))], seeds[:2])]),
        claim("gradient_compression.C16b", basis="training", figure="replica_losses", tables=[losses("2 replicas, PowerSGD", [("dense", base[1]), worse("rank 4", (0.004, 0.005, 0.004))])]),
    ]


TAGC_ARMS = {"FSDP": (1.0, 0), "MLP, c = 2, 1 bit": (0.7, 12), "all layers, c = 2, 1 bit": (0.56, 25), "all layers, c = 4, 1 bit": (0.31, 20), "all layers, c = 2, 4 bits": (0.75, 30)}


def tagc(rates=(1.0, 2.5, 5.0, 10.0, 25.0, 100.0)):
    """TAGC's arms by link: passes of 150 ms and 800 Mbit of gradients, of which each sends a part and codes for some ms; the last arm sends none. At 100 Gbit/s FSDP exposes nothing."""
    exposed = lambda arm, gbps: max(0.0, TAGC_ARMS[arm][0] * 800 / gbps - 8) + TAGC_ARMS[arm][1] if arm in TAGC_ARMS else 0.0
    arms = [*TAGC_ARMS, "gradients omitted"]
    columns = ["link (Gbit/s)", *arms]
    step, synchronisation = ([(f"{g:g} Gbit/s", [g, *(base + exposed(arm, g) for arm in arms)]) for g in rates] for base in (150.0, 0.0))
    tables = [table("TAGC against FSDP, step (ms)", columns, step), table("TAGC against FSDP, exposed synchronisation (ms)", columns, synchronisation)]
    return claim("gradient_compression.C8", basis="emulated link", tables=tables)


def sdp4bit(rates=(0.1, 0.4, 2.0, 10.0)):
    """SDP4Bit's step against a dense one, on 2 nodes of 2 and of 4: 130 ms of passes, messages of 80 Mbit of which coding sends a sixth for 30 ms; shared memory has no link and no model."""
    columns = ["ranks", "link (Gbit/s)", "dense (ms)", "coded (ms)", "gain", "low", "high", "model, dense (ms)", "model, coded (ms)", "model's gain", "codecs (ms)", "bytes across, dense over coded", "dense, one ring (ms)"]
    rows = []
    for ranks in (4, 8):
        for g in rates:
            dense, coded = 130 + 80 / g, 160 + 80 / 6 / g
            rows.append((f"2 x {ranks // 2}, {g:g} Gbit/s", [ranks, g, dense, coded, dense / coded, 0.97 * dense / coded, 1.03 * dense / coded, dense, coded, 0.95 * dense / coded, 30, 5.8, 1.4 * dense if ranks == 4 else None]))
    rows.append(("2 x 2, shared memory", [4, None, 130, 160, 130 / 160, 0.8, 0.83, None, None, None, 30, 5.8, None]))
    return claim("sharded_compression.C15", basis="emulated link", tables=[table("SDP4Bit's steps against dense ones", columns, rows)])


def lhc(links=(("netns:100mbit", 100), ("netns:1gbit", 1000), ("shm", 40000))):
    """Sums of sparse gradients by link: 30 Mbit dense, a c-th of it and 30 ms of coding otherwise; of the denser ones every sum is exact."""
    columns = ["ranks", "density", "load", "relative L2", "speed-up", "low", "high", "bytes, dense over sent"]
    rows = []
    for link, mbit in links:
        for ranks in (2, 4):
            for density, c in ((0.01, 20), (0.05, 5), (0.1, 5)):
                gain = (30 / mbit) / (30 / mbit / c + 0.03)
                rows.append((f"{link}, {ranks} ranks, equal supports, density {density}, c = {c}, 1 bit", [ranks, density, density * c, 0.0 if density == 0.1 else 2e-3, gain, 0.9 * gain, 1.1 * gain, c]))
    return claim("gradient_compression.C14", basis="namespaces", tables=[table("lossless homomorphic compression against a dense sum", columns, rows)])


def everything(seed=1):
    """Every claim that a figure draws."""
    import make_activations  # which stands on this module

    rng = np.random.default_rng(seed)
    return [*quality(rng), uniform(rng), pilot(), stages(), *stacks(), *exposure(), errors(rng), memory(), compressor(), *model(), sketch(), tagc(), sdp4bit(), lhc(), *replica_losses(), *tensor_parallel(), *timed_grids(rng), *terapipe(rng), *make_activations.everything()]


# ---- tensor parallelism -------------------------------------------------------------------------------------------------------------

SCHEMES_OF_64 = ("1d 64", "2d 8x8", "2.5d 4x4x4", "3d 4x4x4, gather keep", "3d 4x4x4, gather again", "3d 4x4x4, gather again-literally")
WEAK = {  # row: (ranks, batch, hidden, average, (f+b)/batch)
    "1-D, 8 GPUs": (8, 60, 2048, 0.35, 0.35), "1-D, 64 GPUs": (64, 30, 8192, 1.5, 1.5), "2-D, 16 GPUs": (16, 192, 4096, 0.7, 0.7),
    "2-D, 64 GPUs": (64, 384, 8192, 1.1, 1.1), "3-D, 8 GPUs": (8, 192, 2048, 0.6, 0.6), "3-D, 64 GPUs": (64, 384, 8192, 0.7, 0.5),
}  # fmt: skip


def tensor_parallel():
    """C5a, C6, C9a, C10a, M2 and C1, as the cost model and the counters write them."""
    modelled = lambda identifier, tables, **more: claim(identifier, basis="cost model", profile="smoke", tables=tables, **more)
    millions = lambda k, b: (33.0, 10.0 + 250 / b, 5.0 + 530 / b, 6.0 + 75 / b, 7.5 + 110 / b, 9.5 + 113 / b)[k]
    over_batch = [(f"b = {b}", [b, *(millions(k, b) for k in range(6))]) for b in (1, 4, 16, 64, 256, 1024)]
    over_ranks = [("1d 4", [4, 25.0]), ("2d 2x2", [4, 40.0]), ("1d 8", [8, 29.0]), ("2.5d 2x2x2", [8, 36.0]), ("3d 2x2x2, gather keep", [8, 23.0]), ("3d 2x2x2, gather again", [8, 29.5])]
    over_ranks += [(s, [64, millions(k, 32)]) for k, s in enumerate(SCHEMES_OF_64)]
    spans = lambda s: [0.6 * s, 1.3 * s, 1.2 * s, 2.4 * s]
    ranges = ["pipelined, low (s)", "pipelined, high (s)", "tree, low (s)", "tree, high (s)"]
    published = ["published average (s)", "published (f+b)/batch (s)"]
    weak = [(row, [p, b, h, average, own, *spans(average)]) for row, (p, b, h, average, own) in WEAK.items()]
    at_64 = [(row[:3], [b, average, own, *spans(average)]) for row, (p, b, h, average, own) in WEAK.items() if p == 64]
    at_64 += [(row[:3], [b, None, None, *spans(average)]) for b in (32, 384) for row, (p, _, _, average, _) in WEAK.items() if p == 64]
    choices = ("pipelined, gather keep", "tree, gather again", "tree, no recomputation", "equal batch 32")
    ratios = [(c, [1.7 + 0.1 * i, 4.0 - 0.2 * i, 1.01 + 0.3 * i, 1.4 + 0.9 * i, 100]) for i, c in enumerate(choices)]
    own = [measure(f"{over} / 3-D, the table's forward + backward", value, margin=margin, unit="x") for over, value, margin in (("1-D", 2.9, 2.3), ("2-D", 2.0, 1.6))]
    names = ["1-D / 3-D, low", "1-D / 3-D, high", "2-D / 3-D, low", "2-D / 3-D, high", "machines"]
    strong = [(row, [p, d, 12, f, 4 * f, *spans(4 * f)]) for row, p, d, f in (
        ("Megatron-LM, 4 GPUs, [4]", 4, 1, 0.12), ("Optimus, 4 GPUs, [2,2]", 4, 1, 0.17), ("Tesseract, 8 GPUs, [2,2,2]", 8, 2, 0.03),
        ("Megatron-LM, 64 GPUs, [64]", 64, 1, 0.12), ("Tesseract, 64 GPUs, [4,4,4]", 64, 4, 0.09),
    )]  # fmt: skip
    return [
        modelled("tensor_parallel.C5a", [table("million elements over the batch, 64 ranks", ["batch", *SCHEMES_OF_64], over_batch),
                                         table("million elements over ranks, batch 32", ["ranks", "million elements"], over_ranks)]),
        claim("tensor_parallel.C5b", basis="exact", tables=[table(
            "64 ranks: elements received per rank, sequence and layer", ["sequence", "forward", "backward", "step", "step with recomputation", "over 2-D", "over 2-D with recomputation"],
            [(f"{s}, batch {30 if k == 0 else 384}, s = 512/32", [16, 1.0, 2.0, millions(k, 384) * 1e6 / 32**2, 4.0, 0.9, 0.9]) for k, s in enumerate(SCHEMES_OF_64) if k != 2])]),
        modelled("tensor_parallel.C6", [table("64 ranks, seconds per sequence", ["batch", *published, *ranges], at_64), table("ratios by choice", names, ratios)], measures=own),
        modelled("tensor_parallel.C9a", [table("weak scaling, seconds per sequence", ["ranks", "batch", "hidden", *published, *ranges], weak)]),
        claim("tensor_parallel.C10a", basis="published numbers", tables=[table("strong scaling, seconds per sequence", ["ranks", "depth", "batch", "published forward (s)", "published step (s)", *ranges], strong)]),
        claim("tensor_parallel.M2", "PASS", "exact", tables=[rank_map(q) for q in (2, 3)], profile="smoke"),
        claim("tensor_parallel.C1", "PASS", "exact", tables=[table(
            "stored elements per rank", ["q", "X", "W", "Y", "X + W + Y over 1/q^3 of them", "most - least", "saved gathered", "(S_X + S_W)/q^2"],
            [(f"3d {q}x{q}x{q}", [q, 64, 128, 96, 1.0, 0.0, 0.0, 12.0]) for q in (2, 3, 4)])]),
    ]  # fmt: skip


def rank_map(q):
    """The rank map of a cube: X, W, Y of 1/q^3 each, a bias on the diagonal l = j, classical tensors on faces."""
    rows = []
    for rank in range(q**3):
        i, j, l = rank % q, rank // q % q, rank // q**2
        held = l == j
        rows.append((f"rank {rank}", [i, j, l, 8, 8, 8, 4.0 if held else 0.0, 4.0 * (j * q + i) if held else None, 8.0 * q * (j == 0), 8.0 * q * (i == 0), 8.0 * q * (l == 0)]))
    columns = ["i", "j", "l", "X elements", "W elements", "Y elements", "bias elements", "first element of bias", "X elements, classical", "W elements, classical", "Y elements, classical"]
    return table(f"rank map of 3d {q}x{q}x{q}", columns, rows)


def timed_grids(rng):
    """C8, C10b, C14b and M1 on the emulated link."""
    near = lambda v: v * float(np.exp(rng.normal(0, 0.02)))
    timed = lambda identifier, *t, **more: claim(identifier, basis="emulated link", tables=[table(*t)], **more)
    eight = []
    for gbps, ratio in ((0.1, 0.9), (1.0, 0.95), (10.0, 1.2)):
        for batch, name in ((20, "batches 192 : 60"), (64, "equal batches")):
            eight.append((f"{gbps:g} Gbit/s, {name}", [gbps, batch, 10 / gbps, near(ratio) * 10 / gbps, 0.8 * ratio * 10 / gbps, ratio]))
    steps = [(f"{m} at {g:g} Gbit/s", [g, p, 10.0, 20.0, near(ms) / g**0.5]) for g in (1.0, 10.0) for m, p, ms in (("1d 4", 4, 25.5), ("2d 2x2", 4, 40.0), ("2.5d 2x2x2", 8, 25.0))]
    best = []
    for gbps in (1.0, 10.0, 100.0):
        for p, method in ((4, "2d 2x2"), (8, "2.5d 2x2x2"), (16, "2d 4x4")):
            for batch in (16, 128):
                gain = near(1.6 - 0.3 * math.log10(gbps) + 0.002 * batch + 0.01 * p)
                best.append((f"{p} ranks, batch {batch}, {gbps:g} Gbit/s: {method}", [gbps, p, batch, 100.0, 100.0 / gain, gain]))
    model = [(m, [p, ms, near(ms), ms / 100, near(ms / 100), 0.01]) for m, p, ms in (("1d 4", 4, 100.0), ("2d 2x2", 4, 90.0), ("1d 8", 8, 100.0), ("2.5d 2x2x2", 8, 70.0), ("3d 2x2x2", 8, 75.0), ("1d 16", 16, 100.0), ("2d 4x4", 16, 85.0))]
    return [
        timed("tensor_parallel.C8", "8 ranks: ms per sequence and layer", ["link (Gbit/s)", "batch of 1-D", "1-D", "3-D, gradient gathered twice", "3-D, gathered once", "3-D / 1-D"], eight),
        timed("tensor_parallel.C10b", "2.5-D on 8 ranks against 4 ranks, equal batch", ["link (Gbit/s)", "ranks", "forward (ms)", "backward (ms)", "step (ms)"], steps),
        timed("tensor_parallel.C14b", "best grid over 1-D", ["link (Gbit/s)", "ranks", "batch", "1-D (ms)", "best (ms)", "speed-up"], best),
        timed("tensor_parallel.M1", "steps of a Transformer layer on an emulated 1 Gbit/s link", ["ranks", "measured (ms)", "model (ms)", "measured / 1-D", "model / 1-D", "distance of the ratio"], model),
    ]  # fmt: skip


def terapipe(rng):
    """C17 to C19."""
    steps = []
    near = lambda ms: ms * float(np.exp(rng.normal(0, 0.03)))
    for stages in (4, 8):
        for slices in (1, 2, 4, 8, 16):
            ms = 40 * (1 + (stages - 1) / slices) + 0.8 * slices
            name = "whole sequences" if slices == 1 else f"{slices} equal slices"
            steps.append((f"K = {stages}, {name}", [stages, slices, near(ms), ms, 0.8, 1.0, 1.1]))
        steps.append((f"K = {stages}, best slices 64,64,128,256", [stages, 6, 43.0, 44.0, 0.5, -2.2, 1.3]))
        steps.append((f"K = {stages}, one micro-batch of 2", [stages, 1, 43.0 * stages, 44.0 * stages, 0.5, -2.2, 1.3]))
    columns = ["stages", "slices", "predicted (ms)", "measured (ms)", "interquartile range (ms)", "error (%)", "speed-up over plain micro-batches (x)"]
    settings = [("setting (10), 175B", [48, 2, 5.822, 1.16, 5.02, 9.92, 7.9, 32, 40]), ("setting (5), 13B", [40, 32, 1.863, 1.328, 1.4, 1.58, 1.5, 96, 90])]
    names = ["stages", "sequences per step", "published without (s)", "published with (s)", "published (x)", "bound without inefficiency (x)", "model (x)", "slices of the paper", "slices of the model"]
    lengths = [(f"L = {n}: 64,64", [n, 4096 / n, 4, 100.0, 100.0 / s, s, 98.0, 99.0 / s, 98 / 99 * s]) for n, s in ((256, 1.1), (512, 1.4), (1024, 2.0), (2048, 3.1))]
    sweep = ["tokens of a sequence", "sequences per step", "slices", "plain (ms)", "sliced (ms)", "speed-up (x)", "predicted plain (ms)", "predicted sliced (ms)", "predicted speed-up (x)"]
    two = [(label.replace("4", "2", 1), [2, *values[1:]]) for label, values in steps[:7]]
    return [
        claim("tensor_parallel.C17a", tables=[table("step time per slicing", columns, two)]),
        claim("tensor_parallel.C17b", tables=[table("step time per slicing", columns, steps)], basis="emulated link"),
        claim("tensor_parallel.C18", basis="cost model", tables=[table("speed-up of the paper's settings", names, settings)]),
        claim("tensor_parallel.C19", basis="emulated link", tables=[table("length sweep", sweep, lengths)]),
    ]


def write(folder, claims, listed=None):
    """FOLDER/claims.json, and FOLDER/list.json where `listed` ({id: smallest profile}) is given. Returns FOLDER."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "claims.json"), "w", encoding="utf-8") as stream:
        json.dump({"schema": 3, "claims": claims}, stream)
    if listed is not None:
        entries = [
            {"id": i, "statement": f"Statement of {i}.", "provenance": "derived", "rule": "", "basis": "training", "from": profile}
            for i, profile in listed.items()
        ]
        with open(os.path.join(folder, "list.json"), "w", encoding="utf-8") as stream:
            json.dump({"schema": 1, "claims": entries}, stream)
    return folder


def load(entries, **more):
    """These claims as the figures get them: written to a file and read back."""
    return claims_of.load(write(scratch_folder(), entries), **more)
