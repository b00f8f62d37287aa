#!/usr/bin/env python3
"""Kills processes of a sweep, a race and a run of claims by SIGKILL, at random moments, and starts the same command again, until it has done so N times.

    scripts/kill_campaign.py [--kills 200] [--seed 1] [--of sweep,race,claims] [--bin build/bin] [--limit 10] [--markdown]

What is killed is the program itself, mpirun or a rank, each kind with the same chance. Held after every kill and at the end of every run:
  - nothing finished is lost, nothing is measured twice: the record of a cell that was OK stays as it is, to the byte;
  - what the killed process belonged to has ended within 10 s (`--limit`): all of it, where the program itself was killed, else its launch;
  - the same command completes: exit status 0 and the cells of a run that nobody disturbed;
  - in the end no process is left.
Prints a table and exits with 0, or with 1 and what was broken. The same seed gives the same choices; when they fall depends on the machine. `--markdown` prints the table for docs."""
import argparse
import collections
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MOST_SECONDS = 10
MARK = "THINWIRE_KILL_CAMPAIGN"

STUDY = """
[study]
name = "killed"
[[grid]]
program = "bench_collective"
ranks = 2
repetitions = 3
[grid.axes]
bytes = [1024, 4096, 16384, 65536]
algorithm = ["library", "ring"]
[[grid]]
program = "train_gpt"
ranks = "dp"
[grid.parameters]
dp = 2
layers = 1
hidden = 16
heads = 2
seq = 16
micro-batch = 2
global-batch = 4
steps = 4
[grid.axes]
seed = [1, 2, 3, 4]
"""

COURSE = """
[race]
name = "killed"
horizon = 8
longest = 1
validate_every = 2
rates = [0.003, 0.01]
tuning_seed = 5
seeds = [1, 2]
links = ["emulated:1gbit,latency=20us"]
windows = 1
[loss]
parameters = {layers = 1, hidden = 16, heads = 2, seq = 16, micro-batch = 2, global-batch = 4, eval-sequences = 4}
[time]
ranks = 2
parameters = {dp = 2, layers = 1, hidden = 16, heads = 2, seq = 16, micro-batch = 2, global-batch = 4, compute = "timed", serial-steps = 1, steps = 3}
[[entrant]]
name = "dense"
[[entrant]]
name = "8 bits"
settings = {"compress.dp_gradient" = "group:bits=8"}
"""

# An exact claim that measures cells in seconds.
CLAIMS = ["optimus_cc.C12"]


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


# One entry for each kind of run: the command, from the folder of programs, a scratch folder and the folder of results.
KINDS = {
    "sweep": lambda bin, scratch, out: [bin + "/sweep", "run", write(scratch + "/study.toml", STUDY), "--out", out, "--bin", bin],
    "race": lambda bin, scratch, out: [bin + "/race", "run", write(scratch + "/course.toml", COURSE), "--out", out],
    "claims": lambda bin, scratch, out: [bin + "/claims", "run", *CLAIMS, "--profile", "quick", "--out", out],
}


def finished(out):
    """{cell: SHA-256 of its record} of cells that are OK. The seal in front of a record says so (docs/results-schema.md)."""
    records = {}
    folder = out + "/cells"
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        if not name.endswith(".h5"):
            continue
        try:
            with open(f"{folder}/{name}", "rb") as file:
                data = file.read()
        except FileNotFoundError:
            continue
        if b" status=OK " in data[:512].split(b"\n")[0]:
            records[name] = hashlib.sha256(data).hexdigest()
    return records


def marked(mark):
    """{process: (parent, name)} of live processes that were started with this mark."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if mark not in file.read():
                    continue
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                name, rest = file.read().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue
        state, parent = rest.split()[:2]
        if state not in "ZX":
            found[int(entry)] = (int(parent), name)
    return found


def wait_until(true, seconds):
    """Seconds until it was, or None."""
    start = time.monotonic()
    while not true():
        if time.monotonic() - start > seconds:
            return None
        time.sleep(0.02)
    return time.monotonic() - start


class Broken(Exception):
    pass


class Run:
    """One result folder and the program that fills it, as often as it takes."""

    def __init__(self, kind, options, chance):
        self.kind, self.chance, self.limit = kind, chance, options.limit
        self.scratch = tempfile.mkdtemp(prefix="thinwire-kills-")
        self.out = self.scratch + "/out"
        self.command = KINDS[kind](os.path.abspath(options.bin), self.scratch, self.out)
        self.mark = str(uuid.uuid4())
        self.environment = dict(os.environ, **{MARK: self.mark}, THINWIRE_SOURCE_DIR=ROOT)
        self.records, self.process = {}, None

    def start(self):
        with open(self.scratch + "/output", "ab") as output:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self.environment, start_new_session=True)

    def alive(self):
        return marked((MARK + "=" + self.mark).encode())

    def check_records(self):
        now = finished(self.out)
        for cell, content in self.records.items():
            if cell not in now:
                raise Broken(f"{self.kind}: the finished cell {cell} is lost")
            if now[cell] != content:
                raise Broken(f"{self.kind}: the finished cell {cell} was measured again")
        self.records = now

    def kill_one(self):
        """Kills a process after a pause. Returns its role and the seconds until its end, or None where the run ended by itself before."""
        if self.chance.random() < 0.85:  # else it may be at its very beginning
            wait_until(lambda: len(self.alive()) > 1 or self.process.poll() is not None, 60)
        time.sleep(self.chance.uniform(0.02, 2.0))
        # What is between fork and exec, or just gone, has no name of its own yet.
        alive = self.alive()
        self.check_records()
        if self.process.poll() is not None or not alive:
            return None
        roles = collections.defaultdict(list)
        for process, (_, name) in sorted(alive.items()):
            roles["the program" if process == self.process.pid else name].append(process)
        role = self.chance.choice(sorted(roles))
        victim = self.chance.choice(roles[role])
        belongs = set(alive) if victim == self.process.pid else self.launch_of(victim, alive)
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            return None
        if victim == self.process.pid:
            self.process.wait()
        took = wait_until(lambda: not belongs & set(self.alive()), self.limit)
        if took is None:
            left = {p: self.alive().get(p) for p in belongs & set(self.alive())}
            raise Broken(f"{self.kind}: {left} live {self.limit} s after {role} was killed")
        self.check_records()
        return role, took

    def launch_of(self, victim, alive):
        """The processes of the launch that the victim is part of: what lies below the same child of the program."""
        top = victim
        while alive.get(top, (0,))[0] not in (self.process.pid, 0) and alive[top][0] in alive:
            top = alive[top][0]
        below, grew = {top}, True
        while grew:
            more = {p for p, (parent, _) in alive.items() if parent in below}
            grew = not more <= below
            below |= more
        return below

    def complete(self):
        """The same command, undisturbed, until it ends well."""
        for _ in range(5):
            if self.process is None or self.process.poll() is not None:
                self.start()
            status = self.process.wait(timeout=900)
            self.check_records()
            if status == 0 and not self.failed():
                return
        with open(self.scratch + "/output", encoding="utf-8", errors="replace") as file:
            raise Broken(f"{self.kind}: it does not complete (status {status}): {file.read()[-3000:]}")

    def failed(self):
        folder = self.out + "/cells"
        return len([n for n in os.listdir(folder) if n.endswith(".h5")]) - len(finished(self.out)) if os.path.isdir(folder) else 0

    def end(self):
        """Kills what is left."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if wait_until(lambda: not self.alive(), self.limit) is None:
            raise Broken(f"{self.kind}: {self.alive()} are left")

    def close(self):
        self.end()
        shutil.rmtree(self.scratch, ignore_errors=True)


def campaign(kind, kills, options, chance):
    calm = Run(kind, options, chance)
    calm.complete()
    expected = set(calm.records)
    if not expected:
        raise Broken(f"{kind}: the run has no cells")
    calm.close()
    seen = collections.defaultdict(list)
    runs = starts = 0
    while sum(map(len, seen.values())) < kills:
        run = Run(kind, options, chance)
        runs += 1
        try:
            while sum(map(len, seen.values())) < kills:
                if run.process is None or run.process.poll() is not None:
                    if run.process is not None and run.process.returncode == 0 and not run.failed():
                        break
                    run.start()
                    starts += 1
                if (killed := run.kill_one()) is not None:
                    seen[killed[0]].append(killed[1])
            run.complete()
            if set(run.records) != expected:
                raise Broken(f"{kind}: {len(set(run.records) ^ expected)} cells differ from those of a run that nobody disturbed")
        except Broken as error:
            run.end()
            raise Broken(f"{error}; its files: {run.scratch}") from None
        except BaseException:
            run.close()
            raise
        run.close()
    return seen, runs, starts, len(expected)


def table(results, markdown):
    head = ["run", "killed", "times", "until the end, median", "longest"]
    lines = []
    for kind, (seen, _, _, _) in results.items():
        for role, times in sorted(seen.items()):
            times = sorted(times)
            lines.append([kind, role, str(len(times)), f"{times[len(times) // 2]:.2f} s", f"{times[-1]:.2f} s"])
    if markdown:
        return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head)] + lines)
    widths = [max(len(line[i]) for line in [head] + lines) for i in range(len(head))]
    return "\n".join("  ".join(word.ljust(width) for word, width in zip(line, widths)).rstrip() for line in [head] + lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="in all, shared out over the kinds (default 200)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--of", default=",".join(KINDS), help="kinds of runs, with commas between them (default all)")
    parser.add_argument("--bin", default=ROOT + "/build/bin", help="folder of the programs")
    parser.add_argument("--limit", type=float, default=MOST_SECONDS, help="seconds until the end (default 10)")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    kinds = options.of.split(",")
    for kind in kinds:
        if kind not in KINDS:
            parser.error(f"--of {kind}: there is {', '.join(KINDS)}")
    print(f"seed {options.seed}", flush=True)
    results, broken = {}, []
    for i, kind in enumerate(kinds):
        kills = options.kills // len(kinds) + (i < options.kills % len(kinds))
        try:
            results[kind] = campaign(kind, kills, options, random.Random(f"{options.seed} {kind}"))
            _, runs, starts, cells = results[kind]
            print(f"{kind}: {kills} kills in {runs} runs of {cells} cells, started {starts} times", flush=True)
        except Broken as error:
            broken.append(str(error))
            print(f"BROKEN: {error}", file=sys.stderr, flush=True)
    print(table(results, options.markdown))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
