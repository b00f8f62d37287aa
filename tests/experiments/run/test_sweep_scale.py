# labels: unit
# timeout: 300
"""A study of many cells through plan, run, status and collect, with real records that tests/programs/launch_player.cpp writes.
As a test: 1,000 cells, and what has to hold at any size. As a measurement: test_sweep_scale.py --cells 10000 prints the table of
docs/performance.md."""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

BUILD = os.environ.get("THINWIRE_BUILD_DIR", "build")
SWEEP = BUILD + "/bin/sweep"
PLAYERS = BUILD + "/tests/programs"

STUDY = """
[study]
name = "scale"
program = "launch_player"
ranks = 1
timeout = 120
minutes = 0.1
[parameters]
samples = {samples}
[axes]
tp = [1]
value = {values}
corpus = {corpora}
"""


def measured(command):
    """Exit status, stdout, wall seconds, and the most memory (MiB) of a command."""
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        errors = []
        reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
        reader.start()
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        reader.join()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{output}\n{errors[0]}")
    return output, time.monotonic() - start, usage.ru_maxrss / 1024


def make_study(folder, cells, samples):
    side = max(1, round(cells**0.5))
    assert side * (cells // side) == cells, f"{cells} cells do not fill a rectangle; take a square number or 1000"
    study = folder + "/study.toml"
    with open(study, "w", encoding="utf-8") as file:
        file.write(STUDY.format(samples=samples, values=[f"v{i}" for i in range(side)], corpora=[f"c{i}" for i in range(cells // side)]))
    return study


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=60, help="rows of /samples in a record")
    parser.add_argument("--folder", help="where to work (default: a temporary folder)")
    options = parser.parse_args()
    cells = {1000: 1024}.get(options.cells, options.cells)
    folder = tempfile.mkdtemp(prefix="thinwire-scale-", dir=options.folder)
    out = folder + "/out"
    try:
        study = make_study(folder, cells, options.samples)
        common = [study, "--out", out, "--bin", PLAYERS]
        steps = [("plan, nothing done", ["plan"]), ("run, one launch", ["run"]), ("run again, nothing to do", ["run"]), ("plan, all done", ["plan"]),
                 ("status", ["status"]), ("collect", ["collect", "--allow-mixed-corpus"])]
        outputs = {}
        print(f"| {cells} cells | seconds | MiB | ms per cell |\n|---|---|---|---|")
        for name, words in steps:
            outputs[name], seconds, memory = measured([SWEEP, words[0], *common, *words[1:]])
            print(f"| {name} | {seconds:.2f} | {memory:.0f} | {1000 * seconds / cells:.2f} |", flush=True)
            if name.startswith("plan"):
                assert memory < 200, f"{name} took {memory:.0f} MiB"
        records = [name for name in os.listdir(out + "/cells") if name.endswith(".h5")]
        size = sum(os.path.getsize(out + "/cells/" + name) for name in records)
        print(f"{size / len(records) / 1024:.1f} KiB a record")
        assert len(records) == cells, f"{len(records)} records"
        assert len(os.listdir(out + "/launches")) == 1, "cells that share program, ranks and link start once"
        assert f"{cells} cells in 1 launches, 0 done, {cells} to run" in outputs["plan, nothing done"], outputs["plan, nothing done"]
        assert f"{cells} done, 0 to run" in outputs["plan, all done"], outputs["plan, all done"]
        assert f"{cells:>6} {cells:>10} " in outputs["status"], outputs["status"]
        with open(out + "/ran.txt", encoding="utf-8") as file:
            assert len(file.readlines()) == cells, "each cell runs once"
        import h5py  # only now: a child's peak memory is never told below that of the process that started it

        with h5py.File(out + "/collected.h5") as file:
            assert len(set(file["cells"]["cell_id"])) == len(file["cells"]) == cells
            assert len(file["samples"]) == cells * options.samples
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
