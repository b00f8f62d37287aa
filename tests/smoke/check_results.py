"""What run_all.sh must leave in a folder, read as a user would: h5py, numpy, and the files on disk."""
import collections
import csv
import json
import pathlib
import sys

import h5py
import numpy as np

COLUMNS = """cell_id traffic method codec form protocol dtype link link_gbps compute oversubscription ranks tp pp dp layers
batch seq hidden seed corpus dense_bytes payload_bytes link_bytes link_bytes_max baseline baseline_link_bytes encode_us transfer_us
decode_us encode_cpu_us decode_cpu_us total_us baseline_us break_even_gbps relative_l2 status reason""".split()


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def check_training(curve, time):
    check({b"dense", b"tp_forward"} <= set(curve["plan"]), "a training plan has no loss curve")
    for plan in set(curve["plan"]):
        losses = curve[curve["plan"] == plan]
        check(np.all(np.isfinite(losses["loss"])) and losses["loss"][-1] < losses["loss"][0], f"the loss of plan {plan} does not fall")
        check(np.isfinite(losses["validation_loss"][-1]), f"plan {plan} has no validation loss")
        check(np.all(np.diff(losses["link_bytes"]) > 0), f"plan {plan} sends nothing in some step")
    dense, coded = (curve[curve["plan"] == plan]["link_bytes"].max() for plan in (b"dense", b"tp_forward"))
    check(coded < dense, "the compressed plan sends as much as the dense one")
    timed = time[time["compute"] == b"timed"]
    check(len(timed) == 0 or np.all((timed["communication_share"] > 0) & (timed["communication_share"] < 1)), "a share that is none")


def main(out):
    with h5py.File(out / "collected.h5", "r") as collected:
        cells = collected["cells"][:]
        check("schema_version" in collected.attrs, "collected.h5 has no schema_version")
        check(len(collected["provenance"]) > 0, "no provenance")
        check_training(collected["training_curve"][:], collected["training_time"][:])
        race = collected["race"][:]
    missing = [name for name in COLUMNS if name not in cells.dtype.names]
    check(not missing, f"/cells lacks the columns {missing}")
    check(len(cells) > 0, "/cells is empty")

    count = collections.Counter(status.decode() for status in cells["status"])
    print("rows by status:", dict(count))
    bad = [row for row in cells if row["status"] in (b"WRONG", b"FAILED", b"TIMEOUT")]
    check(not bad, "rows that failed: " + "; ".join(f"{r['cell_id'][:8]} {r['codec']} {r['status']} {r['reason']}" for r in bad[:5]))
    check(count["OK"] + count["MISTRUSTED"] > 0, "nothing was measured")

    measured = cells[np.isin(cells["status"], [b"OK", b"MISTRUSTED"])]
    # A layer on a process grid has no baseline, and its collectives no times of their own.
    grids = measured[measured["program"] == b"bench_tensor_parallel"]
    steps, errors = grids[grids["operation"] == b"step"], grids[np.char.startswith(grids["operation"], b"error of ")]
    check({m.split(b" ")[0] for m in steps["method"]} >= {b"1d", b"2.5d", b"3d"}, "a scheme of tensor parallelism has no step")
    check(np.all(steps["total_us"] > 0) and np.all(steps["received_bytes"] > 0), "a step on a process grid without time or bytes")
    check(len(errors) == 3 * len(steps) and np.all(np.isfinite(errors["relative_l2"])), "a step on a process grid without its errors")
    measured = measured[measured["program"] != b"bench_tensor_parallel"]
    moved = measured[measured["link_bytes"] > 0]
    check(len(moved) > 0, "no row moved bytes over a link")
    # A dense collective is a baseline itself, and a training run's baseline is the run of the dense plan; every other transfer has one.
    check(np.all(moved["total_us"] > 0), "a transfer without its time")
    with_baseline = moved[~np.isin(moved["program"], [b"bench_collective", b"train_gpt"])]
    check(len(with_baseline) > 0 and np.all(with_baseline["baseline_us"] > 0), "a transfer without its baseline's time")
    forward = with_baseline[np.isin(with_baseline["traffic"], [b"tp_forward", b"pp_forward", b"dp_gradient"])]
    lossy = forward[[not codec.startswith((b"none", b"cast")) for codec in forward["codec"]]]
    check(len(lossy) > 0 and np.all(lossy["relative_l2"] > 0), "no lossy codec, or one without any error")
    dense = forward[forward["codec"] == b"none"]
    check(len(dense) > 0 and np.all(dense["relative_l2"] < 2e-3), "a dense transfer with more than the error of its wire type")
    print(f"{len(cells)} rows, {len(moved)} over links {sorted({link.decode() for link in cells['link']})}")

    figures = sorted(path.stem for path in (out / "figures").glob("*.png"))
    check(figures, "no figures")
    for name in figures:
        for kind in ("png", "pdf", "csv"):
            path = out / "figures" / f"{name}.{kind}"
            check(path.exists() and path.stat().st_size > 0, f"{path.name} is missing or empty")
        with open(out / "figures" / f"{name}.csv", newline="") as lines:
            check(len(list(csv.reader(line for line in lines if not line.startswith("#")))) >= 1, f"{name}.csv has no rows")
    check(set(race["entrant"]) == {b"dense", b"8 bits"} and np.all(race["step_ms"] > 0), "an entrant of the race has no time of a step")
    check(np.all(race["arrived"] == race["seeds"]), "an entrant of the race did not reach a target that any run reaches")
    report = (out / "report.html").read_text()
    check("4.5 nats" in report and "No race was run" not in report, "the report does not open with the race")
    claims = json.loads((out / "claims" / "claims.json").read_text())["claims"]
    check(claims and all(c["verdict"] not in ("FAIL", "INVALID") for c in claims), "a claim failed, or none was judged")
    listed = json.loads((out / "claims" / "list.json").read_text())["claims"]
    # A judged claim has an anchor of its name, and shows the short one under its study; one that is not yet judged is a row of a table.
    shown = [any(form in report for form in (f'<details class="claim" id="{c["id"]}">', f">{c['id']}<")) for c in listed]
    check(len(listed) > len(claims) and all(shown), "the report lacks a claim")
    check("data:image" in report or "<svg" in report, "the report holds no picture of its own")
    check("src=\"http" not in report, "the report is not self-contained")
    print(f"{len(figures)} figures, report of {len(report) // 1024} KiB, {len(claims)} claims judged")


main(pathlib.Path(sys.argv[1]))
