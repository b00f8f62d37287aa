# labels: faults
# timeout: 900
# processors: 1
# first: yes
"""A sweep meets damaged files, full and read-only disks, other runners, jumping clocks, new builds, and nonsense in study files."""
import glob
import json
import os
import re
import shutil
import subprocess
import time
import unittest

import h5py

from sweep_case import PLAYERS, SWEEP, SweepCase, main, text


class Continued(SweepCase):
    def test_resume_needs_no_study_file_and_only_goes_on(self):
        study = self.study(["ok", "throw_once", "ok"])
        with open(self.folder + "/more.toml", "w", encoding="utf-8") as file:
            file.write("[parameters]\nseed = 3\n")
        with open(study, encoding="utf-8") as file:
            content = file.read()
        with open(study, "w", encoding="utf-8") as file:
            file.write('include = ["more.toml"]\n' + content)
        refused = self.sweep("resume", study)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("nothing to resume", refused.stderr)
        self.assertFalse(os.path.exists(self.out))
        self.assertEqual(self.sweep("resume", None).returncode, 2)
        self.assertEqual(self.sweep("run", study, "--set", "seed=5").returncode, 6)
        os.remove(study)
        os.remove(self.folder + "/more.toml")
        self.assertEqual(self.sweep("resume", None).returncode, 0)
        self.assertEqual(self.count(), {"OK": 3})
        self.assertEqual(self.runs(), {"v0": 1, "v1": 2, "v2": 1})
        self.assertIn("3 done, 0 to run", self.sweep("plan", None).stdout)

    def test_cells_of_another_build_are_never_reused_silently(self):
        study = self.study(["ok", "wrong"])
        programs = self.folder + "/bin"
        os.makedirs(programs)
        shutil.copy(PLAYERS + "/launch_player", programs)
        bin_option = ["--bin", programs]
        run = lambda *more: subprocess.run([SWEEP, "run", study, "--out", self.out, *bin_option, *more], capture_output=True, text=True, check=False)
        self.assertEqual(run().returncode, 1)
        self.assertEqual(run().returncode, 1)
        self.assertEqual(self.runs(), {"v0": 1, "v1": 1})
        with open(programs + "/launch_player", "ab") as file:
            file.write(b"another build")
        refused = run()
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("2 of 2 cells", refused.stderr)
        self.assertIn("--if-code-changed", refused.stderr)
        status = subprocess.run([SWEEP, "status", study, "--out", self.out, *bin_option], capture_output=True, text=True, check=False)
        self.assertIn("2 cells were measured by another build of launch_player", status.stdout)
        kept = run("--if-code-changed", "keep")
        self.assertIn("another build", kept.stderr)
        self.assertEqual(self.runs(), {"v0": 1, "v1": 1})
        self.assertNotIn("more than one build", self.sweep("collect", None).stderr)
        run("--if-code-changed", "keep", "--redo", "wrong")
        self.assertIn("launch_player were measured by more than one build", self.sweep("collect", None).stderr)
        self.assertEqual(self.runs(), {"v0": 1, "v1": 2})
        self.assertEqual(run("--if-code-changed", "redo").returncode, 1)
        self.assertEqual(self.runs(), {"v0": 2, "v1": 2}, "only the one of the old build")
        self.assertEqual(run().returncode, 1)
        self.assertEqual(self.runs(), {"v0": 2, "v1": 2})
        self.assertNotIn("more than one build", self.sweep("collect", None).stderr)

    def test_verdicts_and_old_leases_in_claims_survive_a_second_run(self):
        study = self.study(["ok", "ok"])
        self.assertEqual(self.sweep("run", study).returncode, 0)
        # What `claims` judged here an hour ago, and what a runner of an older thinwire left when it was killed.
        os.makedirs(self.out + "/claims", exist_ok=True)
        names = ["claims.json", "list.json", "run.json"]
        for name in names:
            path = f"{self.out}/claims/{name}"
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"schema": 2, "claims": []}')
            os.utime(path, (time.time() - 3600,) * 2)
        os.remove(glob.glob(self.out + "/cells/*.h5")[0])
        self.assertEqual(self.sweep("run", study).returncode, 0)
        self.assertEqual(sorted(os.listdir(self.out + "/claims")), names)
        self.assertEqual(glob.glob(self.out + "/leases/*.json"), [], "given back")
        self.assertEqual(sum(self.runs().values()), 3)

    def test_a_verb_that_does_not_exist_gets_the_nearest_name(self):
        result = subprocess.run([SWEEP, "resmue"], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("did you mean `sweep resume`", result.stderr)


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

    def test_paths_of_this_machine_are_cut_from_commands_when_asked(self):
        self.assertEqual(self.sweep("run", self.study(["ok"])).returncode, 0)

        def commands(*options):
            self.assertEqual(self.sweep("collect", None, *options).returncode, 0)
            with h5py.File(self.out + "/collected.h5") as file:
                return [text(row["command"]) for row in file["provenance"]]

        self.assertIn(self.out + "/launches/", commands()[0])
        cut = commands("--cut-paths")
        self.assertTrue(all(command.startswith("BIN/launch_player --cells OUT/launches/") for command in cut), cut)
        self.assertNotIn(self.folder, " ".join(cut))

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
        self.damage(path, lambda data: data.replace(b" schema=2 ", b" schema=9 ", 1))
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
        values = [f"v{i}" for i in range(10)]
        # One cell waits until the second runner has been refused, the others meet themselves.
        study = self.study(["ok"] * 10, values=values, meets=["v0", "refused", *values[2:]], timeout=300)
        with subprocess.Popen(self.command("run", study), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
            self.wait_for_records(1)
            second = self.sweep("run", study)
            with open(self.out + "/started-refused", "wb"):
                pass
            self.assertEqual(first.wait(120), 0)
        self.assertEqual(second.returncode, 3)
        self.assertIn(f"process {first.pid}", second.stderr)
        self.assertEqual(self.count(), {"OK": 10})
        self.assertEqual(set(self.runs().values()), {1})

    def test_runners_that_start_at_the_same_moment_lose_no_cell_and_run_none_twice(self):
        study = self.study(["ok"] * 10, seconds=0.05)
        runners = [subprocess.Popen(self.command("run", study), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(3)]
        # One that comes when all is done finds nothing to do.
        codes = {runner.wait(120) for runner in runners}
        self.assertIn(0, codes)
        self.assertLessEqual(codes, {0, 3})
        self.assertEqual(self.count(), {"OK": 10})
        self.assertEqual(len({text(r["cell_id"]) for r in self.rows()}), 10)
        self.assertEqual(self.runs(), {f"v{i}": 1 for i in range(10)})

    def test_a_wall_clock_that_jumps_by_days_neither_ends_cells_nor_lets_them_hang(self):
        library = self.folder + "/jumping_clock.so"
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jumping_clock.c")
        if shutil.which("cc") is None:
            self.skipTest("no C compiler to build the clock with")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        environment = dict(os.environ, LD_PRELOAD=library)
        looks = subprocess.run(["date", "+%s"], env=environment, capture_output=True, text=True, check=True).stdout
        self.assertLess(abs(int(looks) - time.time()) % 86400, 100, "the clock does not jump as it should")
        study = self.study(["ok", "hang", "ok"], timeout=30, seconds=0.2)
        start = time.monotonic()
        result = subprocess.run(self.command("run", study), env=environment, capture_output=True, text=True, timeout=600, check=False)
        self.assertGreater(time.monotonic() - start, 30)
        self.assertEqual(result.returncode, 4, result.stdout + result.stderr)
        self.assertEqual(self.count(), {"OK": 2, "TIMEOUT": 1})
        stamps = []
        for path in glob.glob(self.out + "/journal/*.jsonl"):
            with open(path, encoding="utf-8") as file:
                stamps.append([json.loads(line) for line in file])
        self.assertTrue(any(abs(a["time"] - b["time"]) > 40000 for s in stamps for a, b in zip(s, s[1:])), "the journals saw no jump")
        self.assertTrue(all(0 <= entry["elapsed"] < 600 for s in stamps for entry in s))

    def test_a_read_only_result_folder_is_one_clear_error_and_can_still_be_read(self):
        study = self.study(["ok", "ok"])
        self.assertEqual(self.sweep("run", study).returncode, 0)
        enter = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
        lock = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 77; shift; exec "$@"'
        frozen = lambda *words: subprocess.run(enter + ["bash", "-c", lock, "-", self.out, *words], capture_output=True, text=True, timeout=60, check=False)
        if frozen("true").returncode != 0:
            self.skipTest("read-only bind mounts are not permitted here")
        before = sorted(os.listdir(self.out + "/cells"))
        for words in (self.command("run", study, "--redo", "all"), self.command("collect", None)):
            result = frozen(*words)
            self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
            self.assertEqual(len(re.findall(r"^\S+ error ", result.stderr, re.MULTILINE)), 1, result.stderr)
            self.assertIn(self.out, result.stderr)
        for command in ("status", "plan"):
            self.assertEqual(frozen(*self.command(command, study)).returncode, 0)
        self.assertEqual(sorted(os.listdir(self.out + "/cells")), before)
        self.assertEqual(self.runs(), {"v0": 1, "v1": 1})

    def test_shell_metacharacters_never_reach_a_shell(self):
        values = ["$(touch pwned)", "`touch pwned`", "; touch pwned", "a && touch pwned", "| touch pwned", "\"; touch pwned", "%s\\n*?[]{}~"]
        out = self.folder + "/o ut; touch pwned $(touch pwned)"
        for link in ("shm", "netns:1gbit"):
            study = self.study(["ok"] * len(values), values=values, link=link, ranks=2)
            result = self.sweep("run", study, out=out)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        done = [r for r in self.rows(out) if r["status"] == b"OK"]
        self.assertEqual({text(r["method"]) for r in done}, set(values))
        # In the other places of a study: as the name of an emulated link it goes nowhere near a shell, elsewhere it is refused.
        nasty = "$(touch pwned); touch pwned"
        study = self.study(["ok"], link="netns:" + nasty, ranks=2)
        self.assertEqual(self.sweep("run", study, out=out).returncode, 2)
        study = self.study(["ok"], link="emulated:" + nasty)
        self.assertEqual(self.sweep("run", study, out=out).returncode, 0)
        with open(self.study(["ok"]), encoding="utf-8") as file:
            good = file.read()
        for key, status in (("program", 3), ("name", 2), ("ranks", 2)):
            lines = [f"{key} = '{nasty}'" if line.startswith(key + " =") else line for line in good.split("\n")]
            with open(self.folder + "/study.toml", "w", encoding="utf-8") as file:
                file.write("\n".join(lines))
            self.assertEqual(self.sweep("run", self.folder + "/study.toml", out=out).returncode, status, key)
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

    def test_a_choice_of_cells_without_a_study_is_one_of_the_study_that_was_started(self):
        study = self.study(["ok"] * 3)
        self.sweep("run", study)
        rows = lambda: len(h5py.File(self.out + "/collected.h5")["cells"])
        self.assertEqual(self.sweep("collect", None).returncode, 0)
        self.assertEqual(rows(), 3)
        self.assertEqual(self.sweep("collect", None, "--where", "value=v1").returncode, 0)
        self.assertEqual(rows(), 1)
        refused = self.sweep("collect", None, "--where", "vlaue=v1")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("did you mean `value`", refused.stderr)

    def test_a_text_that_changed_between_two_runs_is_said_while_the_second_runs(self):
        study = self.study(["ok"] * 4, corpora=["a" * 64, "a" * 64, "b" * 64, "b" * 64])
        first = self.sweep("run", study, "--where", "value=v0")
        self.assertNotIn("SHA-256", first.stderr)
        again = self.sweep("run", study, "--where", "value!=v2 and value!=v3")
        self.assertNotIn("SHA-256", again.stderr, "the same text")
        self.assertNotIn("different texts", self.sweep("status", study).stdout)
        changed = self.sweep("run", study)
        self.assertEqual(changed.returncode, 0, changed.stderr)
        said = [line for line in changed.stderr.splitlines() if "SHA-256 " + "a" * 16 + "... (2 cells)" in line and "b" * 16 in line]
        self.assertEqual(len(said), 1, changed.stderr)
        self.assertIn("cells of launch_player are of different texts, by SHA-256: " + "a" * 16 + "... (2 cells), " + "b" * 16 + "... (2 cells)", self.sweep("status", study).stdout)
        self.assertNotIn("SHA-256", self.sweep("run", study, "--redo", "all").stderr, "nothing of before stands")

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
    main()
