"""What the fault tests of `sweep` share: a study whose program is tests/programs/launch_player.cpp, which plays what it is told."""
import collections
import concurrent.futures
import glob
import io
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import h5py

BUILD = os.environ["THINWIRE_BUILD_DIR"]
SWEEP = BUILD + "/bin/sweep"
PLAYERS = BUILD + "/tests/programs"

STUDY = """
[study]
name = "played"
program = "launch_player"
ranks = {ranks}
link = "{link}"
timeout = {timeout}
[parameters]
seconds = {seconds}
[[zip]]
value = {values}
act = {acts}
corpus = {corpora}
"""


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def players():
    """Process ids of launch_player programs that are alive, anywhere on the machine, by the study's mark."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                if b"launch_player" in file.read():
                    found.append(int(path.split("/")[2]))
        except OSError:
            continue
    return found


class SweepCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="thinwire-sweep-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.out = self.folder + "/out"

    def study(self, acts, seconds=0.01, timeout=30, ranks=1, values=None, link="shm", corpora=None, meets=None):
        path = self.folder + "/study.toml"
        values = values or [f"v{i}" for i in range(len(acts))]
        corpora = corpora or [""] * len(acts)
        quoted = lambda texts: "[" + ", ".join("'" + t + "'" for t in texts) + "]"
        with open(path, "w", encoding="utf-8") as file:
            file.write(STUDY.format(ranks=ranks, link=link, timeout=timeout, seconds=seconds, values=quoted(values),
                                    acts=quoted(acts), corpora=quoted(corpora)))
            if meets:
                file.write(f"meets = {quoted(meets)}\n")
        return path

    def command(self, command, study, *more, out=None):
        command = [SWEEP, command] + ([study] if study else []) + ["--out", out or self.out, "--bin", PLAYERS]
        return command + list(more)

    def sweep(self, command, study, *more, out=None, limit=180):
        return subprocess.run(self.command(command, study, *more, out=out), capture_output=True, text=True, timeout=limit, check=False)

    def rows(self, out=None):
        result = self.sweep("collect", None, "--allow-mixed-corpus", out=out)
        self.assertIn(result.returncode, (0, 6), result.stderr)
        with h5py.File((out or self.out) + "/collected.h5") as file:
            return file["cells"][:]

    def statuses(self, out=None):
        return {text(r["method"]) or text(r["cell_id"]): text(r["status"]) for r in self.rows(out)}

    def count(self, out=None):
        return collections.Counter(text(r["status"]) for r in self.rows(out))

    def runs(self):
        with open(self.out + "/ran.txt", encoding="utf-8") as file:
            return collections.Counter(file.read().split("\n")[:-1])

    def wait_for_records(self, count, limit=60):
        start = time.monotonic()
        while len(glob.glob(self.out + "/cells/*.h5")) < count:
            self.assertLess(time.monotonic() - start, limit, "the sweep did not get going")
            time.sleep(0.01)

    def wait_for_mark(self, name, content, limit=120):
        """Until launch_player has written this into a file of the folder."""
        start = time.monotonic()
        while content not in self.mark(name):
            self.assertLess(time.monotonic() - start, limit, f"no {content} in {name}")
            time.sleep(0.01)

    def mark(self, name):
        try:
            with open(self.out + "/" + name, encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def wait_for_no_player(self, limit):
        start = time.monotonic()
        while (left := [p for p in players() if self.belongs(p)]):
            self.assertLess(time.monotonic() - start, limit, f"processes {left} outlived the sweep")
            time.sleep(0.05)

    def belongs(self, pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return self.folder.encode() in file.read()
        except OSError:
            return False


SIDE_BY_SIDE = 3


def _cases():
    """Ids of the test file's cases, in their order."""
    found, todo = [], [unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])]
    while todo:
        case = todo.pop()
        if isinstance(case, unittest.TestSuite):
            todo.extend(reversed(list(case)))
        else:
            found.append(case.id().removeprefix("__main__."))
    return found


def _passes(case):
    """Whether the case passes, and what unittest says of it."""
    told = io.StringIO()
    suite = unittest.defaultTestLoader.loadTestsFromName(case, sys.modules["__main__"])
    result = unittest.TextTestRunner(stream=told, verbosity=2).run(suite)
    return result.wasSuccessful() and result.testsRun == 1, told.getvalue()


def main():
    """As unittest.main(), but several cases at a time, since they wait for programs more than they compute; those that are named on the command line one by one. Each has a folder of its own."""
    if len(sys.argv) > 1:
        unittest.main(verbosity=2)
    cases, failed = _cases(), []
    with concurrent.futures.ProcessPoolExecutor(SIDE_BY_SIDE, mp_context=multiprocessing.get_context("fork")) as pool:
        for case, (passed, told) in zip(cases, pool.map(_passes, cases)):
            print(told, end="", flush=True)
            if not passed:
                failed.append(case)
    print(f"{len(cases)} cases; failed: {', '.join(failed) or 'none'}")
    sys.exit(1 if failed or not cases else 0)
