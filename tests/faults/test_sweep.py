# labels: faults
# timeout: 240
"""A sweep meets programs that die, hang and lie, and people who interrupt, fill the disk and type nonsense.
tests/programs/launch_player.cpp plays the programs."""
import collections
import glob
import os
import shutil
import signal
import subprocess
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

    def study(self, acts, seconds=0.01, timeout=30, ranks=1, values=None, link="shm", corpora=None):
        path = self.folder + "/study.toml"
        values = values or [f"v{i}" for i in range(len(acts))]
        corpora = corpora or [""] * len(acts)
        quoted = lambda texts: "[" + ", ".join("'" + t + "'" for t in texts) + "]"
        with open(path, "w", encoding="utf-8") as file:
            file.write(STUDY.format(ranks=ranks, link=link, timeout=timeout, seconds=seconds, values=quoted(values),
                                    acts=quoted(acts), corpora=quoted(corpora)))
        return path

    def command(self, verb, study, *more, out=None):
        command = [SWEEP, verb] + ([study] if study else []) + ["--out", out or self.out, "--bin", PLAYERS]
        return command + list(more)

    def sweep(self, verb, study, *more, out=None, limit=120):
        return subprocess.run(self.command(verb, study, *more, out=out), capture_output=True, text=True, timeout=limit, check=False)

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

    def wait_for_records(self, count, limit=30):
        start = time.monotonic()
        while len(glob.glob(self.out + "/cells/*.h5")) < count:
            self.assertLess(time.monotonic() - start, limit, "the sweep did not get going")
            time.sleep(0.01)

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


class Killed(SweepCase):
    def test_sigkill_half_way_and_again_gives_the_cells_of_an_undisturbed_run(self):
        study = self.study(["ok"] * 12, seconds=0.1, ranks=2)
        calm = self.folder + "/calm"
        self.assertEqual(self.sweep("run", study, out=calm).returncode, 0)
        for kill_after in (1, 4, 8):
            with subprocess.Popen(self.command("run", study), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                self.wait_for_records(kill_after)
                process.kill()
        result = self.sweep("run", study)
        self.assertEqual(result.returncode, 0, result.stderr)
        disturbed, undisturbed = self.rows(), self.rows(calm)
        key = lambda rows: sorted((text(r["cell_id"]), text(r["method"]), text(r["status"]), int(r["ranks"])) for r in rows)
        self.assertEqual(key(disturbed), key(undisturbed))
        self.assertEqual(len({text(r["cell_id"]) for r in disturbed}), 12)
        # Finished cells were not run again: only those that a kill interrupted, one per kill.
        self.assertLessEqual(sum(self.runs().values()), 12 + 3)

    def test_sigkill_of_the_sweep_takes_its_ranks_with_it(self):
        study = self.study(["ok", "hang"], ranks=2)
        with subprocess.Popen(self.command("run", study), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            self.wait_for_records(1)
            process.kill()
        self.wait_for_no_player(10)

    def test_sigkill_of_mpirun_fails_the_running_cell_and_leaves_no_rank_behind(self):
        study = self.study(["ok", "hang_once", "ok"], ranks=2)
        with subprocess.Popen(self.command("run", study), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            self.wait_for_records(1)
            time.sleep(0.3)
            mpirun = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=True).stdout.split()
            self.assertEqual(len(mpirun), 1)
            os.kill(int(mpirun[0]), signal.SIGKILL)
            self.assertEqual(process.wait(30), 6)
        self.wait_for_no_player(2)
        self.assertEqual(self.count(), {"OK": 2, "FAILED": 1})
        self.assertEqual(self.sweep("run", study).returncode, 0)
        self.assertEqual(self.count(), {"OK": 3})

    def test_interrupt_ends_the_ranks_and_keeps_what_is_finished(self):
        study = self.study(["ok", "ok", "hang_once", "ok"], ranks=2)
        with subprocess.Popen(self.command("run", study), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            self.wait_for_records(2)
            process.send_signal(signal.SIGINT)
            error = process.communicate(timeout=20)[1]
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertIn("the same command continues", error)
        self.wait_for_no_player(2)
        self.assertEqual(self.count(), {"OK": 2})
        self.assertEqual(self.sweep("run", study).returncode, 0)
        self.assertEqual(self.count(), {"OK": 4})

    def test_a_killed_rank_fails_its_cell_only_and_the_next_run_mends_it(self):
        study = self.study(["ok", "kill_once", "ok"], ranks=2)
        start = time.monotonic()
        result = self.sweep("run", study)
        self.assertLess(time.monotonic() - start, 15)
        self.assertEqual(result.returncode, 6, result.stdout + result.stderr)
        self.assertEqual(self.statuses(), {"v0": "OK", self.failed_id(): "FAILED", "v2": "OK"})
        self.assertIn("signal", [text(r["reason"]) for r in self.rows() if r["status"] == b"FAILED"][0])
        self.assertEqual(self.sweep("run", study).returncode, 0)
        self.assertEqual(self.count(), {"OK": 3})
        self.assertEqual(self.runs(), {"v0": 1, "v1": 2, "v2": 1})

    def failed_id(self):
        return [text(r["cell_id"]) for r in self.rows() if r["status"] == b"FAILED"][0]


class Misbehaving(SweepCase):
    def test_a_hanging_cell_times_out_and_the_others_go_on(self):
        study = self.study(["ok", "hang", "ok"], timeout=6, ranks=2)
        result = self.sweep("run", study)
        self.assertEqual(result.returncode, 4, result.stdout + result.stderr)
        self.assertEqual(self.count(), {"OK": 2, "TIMEOUT": 1})
        self.wait_for_no_player(1)

    def test_a_failing_cell_carries_the_message_of_its_program(self):
        study = self.study(["throw", "ok", "throw", "ok"])
        result = self.sweep("run", study)
        self.assertEqual(result.returncode, 6, result.stderr)
        reasons = sorted(text(r["reason"]) for r in self.rows() if r["status"] == b"FAILED")
        self.assertEqual(self.count(), {"OK": 2, "FAILED": 2})
        self.assertIn("played failure of v0", reasons[0])
        self.assertIn("played failure of v2", reasons[1])
        self.assertIn("played failure of v0", result.stdout)

    def test_a_program_that_leaves_a_cell_out_does_not_loop(self):
        study = self.study(["ok", "vanish", "ok"])
        self.assertEqual(self.sweep("run", study).returncode, 6)
        self.assertEqual(self.count(), {"OK": 2, "FAILED": 1})

    def test_wrong_and_mistrusted_rows_stand_and_wrong_is_told_by_exit_code_1(self):
        study = self.study(["ok", "wrong", "mistrusted"])
        self.assertEqual(self.sweep("run", study).returncode, 1)
        self.assertEqual(self.sweep("run", study).returncode, 1)
        self.assertEqual(self.runs(), {"v0": 1, "v1": 1, "v2": 1})
        self.sweep("run", study, "--redo", "wrong", "--redo", "mistrusted")
        self.assertEqual(self.runs(), {"v0": 1, "v1": 2, "v2": 2})

    def test_many_failures_stop_at_the_threshold(self):
        study = self.study(["throw"] * 200)
        result = self.sweep("run", study, "--max-failures", "3")
        self.assertEqual(result.returncode, 6)
        self.assertIn("--max-failures", result.stderr)
        self.assertEqual(len(glob.glob(self.out + "/cells/*.h5")), 3)

    def test_a_link_that_is_not_permitted_gives_skipped_rows(self):
        lab = self.folder + "/lab.sh"
        with open(lab, "w", encoding="utf-8") as file:
            file.write("echo 'SKIPPED: namespaces are not permitted here' >&2; exit 3\n")
        study = self.study(["ok", "ok"], ranks=2, link="netns:1gbit")
        result = self.sweep("run", study, "--lab", lab)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.count(), {"SKIPPED": 2})
        self.assertEqual({text(r["reason"]) for r in self.rows()}, {"namespaces are not permitted here"})
        self.assertEqual({text(r["link"]) for r in self.rows()}, {"netns:1gbit"})


class DamagedFiles(SweepCase):
    def record(self, method):
        for path in glob.glob(self.out + "/cells/*.h5"):
            with h5py.File(path) as file:
                if text(file["cells"][0]["method"]) == method:
                    return path
        raise AssertionError(f"no record of {method}")

    def damage(self, path, change):
        with open(path, "rb") as file:
            data = bytearray(file.read())
        data = change(data)
        with open(path, "wb") as file:
            file.write(data)

    def test_truncated_or_altered_records_are_left_out_of_collect_and_run_again(self):
        study = self.study(["ok"] * 5)
        self.assertEqual(self.sweep("run", study).returncode, 0)

        def flip(data):
            data[len(data) // 2] ^= 1
            return data

        self.damage(self.record("v1"), lambda data: data[: len(data) // 2])
        self.damage(self.record("v2"), flip)
        self.damage(self.record("v3"), lambda data: bytearray())
        collected = self.sweep("collect", None)
        self.assertEqual(collected.returncode, 6)
        self.assertEqual(collected.stderr.count("left out"), 3)
        self.assertEqual(self.statuses(), {"v0": "OK", "v4": "OK"})
        self.assertEqual(self.sweep("run", study).returncode, 0)
        self.assertEqual(self.count(), {"OK": 5})
        self.assertEqual(self.runs(), {"v0": 1, "v1": 2, "v2": 2, "v3": 2, "v4": 1})

    def test_a_record_under_another_cells_name_is_left_out(self):
        study = self.study(["ok", "ok"])
        self.sweep("run", study)
        shutil.copy(self.record("v0"), self.out + "/cells/" + "0" * 64 + ".h5")
        result = self.sweep("collect", None)
        self.assertEqual(result.returncode, 6)
        self.assertIn("belongs to another cell", result.stderr)
        self.assertEqual(len(self.rows()), 2)

    def test_another_schema_version_is_refused_and_left_alone(self):
        study = self.study(["ok", "ok"])
        self.sweep("run", study)
        path = self.record("v0")
        self.damage(path, lambda data: data.replace(b" schema=1 ", b" schema=9 ", 1))
        with open(path, "rb") as file:
            before = file.read()
        result = self.sweep("run", study)
        self.assertEqual(result.returncode, 6)
        self.assertIn("schema version 9", result.stderr)
        self.assertIn(path, result.stderr)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), before)

    def test_remains_of_a_killed_writer_do_no_harm(self):
        study = self.study(["ok"] * 2)
        os.makedirs(self.out + "/cells")
        os.makedirs(self.out + "/journal")
        with open(self.out + "/cells/" + "1" * 64 + ".h5.tmp", "wb") as file:
            file.write(b"half a fi")
        with open(self.out + "/journal/0001.jsonl", "wb") as file:
            file.write(b'{"event":"cell_started","cell_id":"gone"}\n{"event":"cell_fini')
        self.assertEqual(self.sweep("run", study).returncode, 0)
        self.assertEqual(self.count(), {"OK": 2})


class Surroundings(SweepCase):
    def test_a_second_runner_is_refused_and_the_first_completes(self):
        study = self.study(["ok"] * 10, seconds=0.1)
        with subprocess.Popen(self.command("run", study), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
            self.wait_for_records(1)
            second = self.sweep("run", study)
            self.assertEqual(first.wait(60), 0)
        self.assertEqual(second.returncode, 3)
        self.assertIn(f"process {first.pid}", second.stderr)
        self.assertEqual(self.count(), {"OK": 10})
        self.assertEqual(set(self.runs().values()), {1})

    def test_shell_metacharacters_never_reach_a_shell(self):
        values = ["$(touch pwned)", "`touch pwned`", "; touch pwned", "a && touch pwned", "| touch pwned", "\"; touch pwned", "%s\\n*?[]{}~"]
        out = self.folder + "/o ut; touch pwned $(touch pwned)"
        for link in ("shm", "netns:1gbit"):
            study = self.study(["ok"] * len(values), values=values, link=link, ranks=2)
            result = self.sweep("run", study, out=out)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        done = [r for r in self.rows(out) if r["status"] == b"OK"]
        self.assertEqual({text(r["method"]) for r in done}, set(values))
        self.assertEqual(glob.glob(self.folder + "/**/pwned", recursive=True) + glob.glob("pwned"), [])

    def test_a_folder_without_right_to_write_is_one_clear_error(self):
        study = self.study(["ok"])
        os.makedirs(self.out)
        os.chmod(self.folder, 0o755)
        os.chmod(self.out, 0o555)
        as_nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] if os.geteuid() == 0 else []
        # `test` asks after its own start: setpriv itself may still reach a program inside a folder of root's.
        if as_nobody and subprocess.run(as_nobody + ["test", "-x", SWEEP], capture_output=True, check=False).returncode != 0:
            self.skipTest("an ordinary user cannot start programs of this folder, and root may write everywhere")
        result = subprocess.run(as_nobody + self.command("run", study), capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertEqual(result.stderr.count(" error "), 1)
        self.assertIn(self.out, result.stderr)
        file_in_the_way = self.folder + "/file"
        with open(file_in_the_way, "w", encoding="utf-8"):
            pass
        self.assertEqual(self.sweep("run", study, out=file_in_the_way + "/out").returncode, 3)

    def test_a_full_disk_ends_the_run_and_keeps_what_is_finished(self):
        study = self.study(["ok"] * 40, seconds=0)
        os.makedirs(self.out)
        enter = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
        mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", self.out]
        if subprocess.run(enter + mount, capture_output=True, check=False).returncode != 0:
            self.skipTest("mounting a small tmpfs is not permitted here")
        script = """
set -u
mount -t tmpfs -o size=400k tmpfs "$1"; shift
"$@"; echo "first $?"
head -c 400000 /dev/zero > "$OUT"/ballast 2>/dev/null
$SWEEP collect --out "$OUT"; echo "collect $?"
rm "$OUT"/ballast
ls "$OUT"/cells/*.h5 | wc -l
ls "$OUT"/cells/ | grep -c tmp
mount -o remount,size=64m tmpfs "$OUT"
"$@"; echo "second $?"
wc -l < "$OUT"/ran.txt
"""
        result = subprocess.run(enter + ["bash", "-c", script, "-", self.out] + self.command("run", study), capture_output=True, text=True,
                                env=dict(os.environ, OUT=self.out, SWEEP=SWEEP), timeout=120, check=False)
        lines = [l for l in result.stdout.split("\n") if l and l.split()[0] in ("first", "collect", "second") or l.isdigit()]
        self.assertEqual(lines[0], "first 6", result.stdout + result.stderr)
        self.assertRegex(result.stderr.lower(), "disk is full|no space left")
        self.assertEqual(lines.pop(1), "collect 6", result.stdout + result.stderr)
        self.assertNotIn("fatal signal", result.stderr)
        finished = int(lines[1])
        self.assertGreater(finished, 3)
        self.assertLess(finished, 40)
        self.assertEqual(lines[2], "0", "a temporary file was left behind")
        self.assertEqual(lines[3], "second 0", result.stdout + result.stderr)

    def test_cells_of_two_texts_are_not_collected_silently(self):
        study = self.study(["ok"] * 3, corpora=["a" * 64, "a" * 64, "b" * 64])
        self.sweep("run", study)
        refused = self.sweep("collect", None)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("different corpora", refused.stderr)
        self.assertFalse(os.path.exists(self.out + "/collected.h5"))
        self.assertEqual(self.sweep("collect", None, "--allow-mixed-corpus").returncode, 0)

    def test_bad_study_files_are_usage_errors_that_name_file_line_and_remedy(self):
        with open(self.study(["ok"]), encoding="utf-8") as file:
            good = file.read()
        cases = [(good.replace("timeout", "timeuot"), "timeout"), (good.replace("value =", "vaule ="), "value"),
                 (good + "[axes]\nvalue = [1]\n", "twice"), (good + "[axes]\nsize = []\n", "empty"), (good + "x = [", "study.toml:")]
        for content, hint in cases:
            with open(self.folder + "/study.toml", "w", encoding="utf-8") as file:
                file.write(content)
            result = self.sweep("run", self.folder + "/study.toml")
            self.assertEqual(result.returncode, 2, content + result.stderr)
            self.assertIn(hint, result.stderr)
        self.assertFalse(os.path.exists(self.out))
        self.assertEqual(self.sweep("run", self.folder + "/none.toml").returncode, 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
