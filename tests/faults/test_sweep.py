# labels: faults
# timeout: 900
# processors: 1
# first: yes
"""A sweep meets programs that die, hang, fail and lie, and people who interrupt it. tests/programs/launch_player.cpp plays the programs."""
import collections
import glob
import json
import os
import signal
import subprocess
import time
import unittest

import h5py

from sweep_case import SweepCase, main, players, text


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
        self.wait_for_no_player(30)

    def test_sigkill_of_mpirun_fails_the_running_cell_and_leaves_no_rank_behind(self):
        study = self.study(["ok", "hang_once", "ok"], ranks=2)
        with subprocess.Popen(self.command("run", study), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            self.wait_for_mark("played-hang_oncev1", "x")
            mpirun = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=True).stdout.split()
            self.assertEqual(len(mpirun), 1)
            os.kill(int(mpirun[0]), signal.SIGKILL)
            self.assertEqual(process.wait(60), 6)
        self.wait_for_no_player(30)
        self.assertEqual(self.count(), {"OK": 2, "FAILED": 1})
        self.assertEqual(self.sweep("run", study).returncode, 0)
        self.assertEqual(self.count(), {"OK": 3})

    def test_interrupt_ends_the_ranks_and_keeps_what_is_finished(self):
        study = self.study(["ok", "ok", "hang_once", "ok"], ranks=2)
        with subprocess.Popen(self.command("run", study), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            self.wait_for_mark("played-hang_oncev2", "x")
            process.send_signal(signal.SIGINT)
            error = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertIn("the same command continues", error)
        self.wait_for_no_player(30)
        self.assertEqual(self.count(), {"OK": 2})
        self.assertEqual(self.sweep("run", study).returncode, 0)
        self.assertEqual(self.count(), {"OK": 4})

    def test_a_killed_rank_fails_its_cell_only_and_the_next_run_mends_it(self):
        study = self.study(["ok", "kill_once", "ok"], ranks=2)
        result = self.sweep("run", study)
        self.assertEqual(result.returncode, 6, result.stdout + result.stderr)
        self.assertEqual(self.statuses(), {"v0": "OK", self.failed_id(): "FAILED", "v2": "OK"})
        self.assertIn("signal", [text(r["reason"]) for r in self.rows() if r["status"] == b"FAILED"][0])
        self.assertEqual(self.sweep("run", study).returncode, 0)
        self.assertEqual(self.count(), {"OK": 3})
        self.assertEqual(self.runs(), {"v0": 1, "v1": 2, "v2": 1})

    def failed_id(self):
        return [text(r["cell_id"]) for r in self.rows() if r["status"] == b"FAILED"][0]


    def test_sigkill_of_one_rank_from_outside_fails_the_running_cell_only(self):
        study = self.study(["ok", "hang", "ok"], ranks=2)  # other ranks than 0 linger where a cell hangs
        with subprocess.Popen(self.command("run", study), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            self.wait_for_mark("ran.txt", "v1\n")
            start = time.monotonic()
            while not (second := [p for p in players() if self.belongs(p) and self.rank(p) == "1"]):
                self.assertLess(time.monotonic() - start, 60)
                time.sleep(0.02)
            os.kill(second[0], signal.SIGKILL)
            self.assertEqual(process.wait(60), 6)
        self.assertEqual(self.count(), {"OK": 2, "FAILED": 1})
        self.assertEqual(self.runs(), {"v0": 1, "v1": 1, "v2": 1})
        self.wait_for_no_player(30)

    @staticmethod
    def rank(pid):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return dict(e.split("=", 1) for e in file.read().decode(errors="replace").split("\0") if "=" in e).get("OMPI_COMM_WORLD_RANK")
        except OSError:
            return None


class Misbehaving(SweepCase):
    def test_a_hanging_cell_times_out_and_the_others_go_on(self):
        study = self.study(["ok", "hang", "ok"], timeout=30, ranks=2)
        result = self.sweep("run", study)
        self.assertEqual(result.returncode, 4, result.stdout + result.stderr)
        self.assertEqual(self.count(), {"OK": 2, "TIMEOUT": 1})
        self.wait_for_no_player(30)

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

    def test_two_hundred_failures_in_a_row_stop_early(self):
        study = self.study(["throw"] * 200, seconds=0)
        result = self.sweep("run", study, "--max-failures", "3")
        self.assertEqual(result.returncode, 6)
        self.assertIn("stopped after 3 failures in a row", result.stderr)
        self.assertEqual(len(glob.glob(self.out + "/cells/*.h5")), 3)
        # Failures that the program itself records, without dying of them, end its launch as well; here by the default of 20.
        study = self.study(["failed_row"] * 200, seconds=0.1)
        result = self.sweep("run", study, out=self.out + "2")
        self.assertEqual(result.returncode, 6)
        self.assertIn("stopped after 20 failures in a row", result.stderr)
        self.assertGreaterEqual(len(glob.glob(self.out + "2/cells/*.h5")), 20)
        self.assertLess(len(glob.glob(self.out + "2/cells/*.h5")), 100)
        self.wait_for_no_player(30)

    def test_failures_that_do_not_come_in_a_row_do_not_stop_the_rest(self):
        study = self.study(["throw", "ok"] * 3, seconds=0)
        self.assertEqual(self.sweep("run", study, "--max-failures", "2").returncode, 6)
        self.assertEqual(self.count(), {"OK": 3, "FAILED": 3})

    def journal_events(self, event):
        events = collections.Counter()
        for path in glob.glob(self.out + "/journal/*.jsonl"):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    entry = json.loads(line)
                    if entry["event"] == event:
                        events[entry["cell_id"]] += 1
        return events

    def test_retries_try_failing_cells_again_after_the_others_and_keep_count(self):
        study = self.study(["throw_twice", "ok", "failed_row_once", "throw", "ok"])
        result = self.sweep("run", study, "--retries", "2")
        self.assertEqual(result.returncode, 6, result.stderr)
        self.assertEqual(self.runs(), {"v0": 3, "v1": 1, "v2": 2, "v3": 3, "v4": 1})
        self.assertEqual(self.count(), {"OK": 4, "FAILED": 1})
        with h5py.File(self.out + "/collected.h5") as file:
            attempt = {p["launch"]: text(p["environment"]).split("THINWIRE_ATTEMPT=")[1][:1] for p in file["provenance"] if b"THINWIRE_ATTEMPT" in p["environment"]}
            for row in file["cells"]:
                if row["status"] == b"OK":
                    self.assertEqual(attempt[row["launch"]], {"v0": "3", "v2": "2"}.get(text(row["method"]), "1"))
                else:
                    self.assertRegex(text(row["reason"]), "^attempt 3: .*played failure of v3")
        self.assertEqual(sorted(self.journal_events("cell_retry").values()), [1, 2, 2])
        with open(self.out + "/ran.txt", encoding="utf-8") as file:
            order = file.read().split()
        self.assertLess(order.index("v4"), len(order) - 1 - order[::-1].index("v0"), "others go first")

    def test_a_program_that_stops_on_request_is_nobodys_failure(self):
        study = self.study(["ok", "stop_once", "ok"])
        with subprocess.Popen(self.command("run", study), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            self.wait_for_records(1)
            time.sleep(0.2)
            process.send_signal(signal.SIGUSR1)
            error = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 7, error)
        self.assertIn("the same command goes on", error)
        self.assertEqual(self.count(), {"OK": 1})
        self.assertEqual(self.sweep("run", study).returncode, 0)
        self.assertEqual(self.count(), {"OK": 3})

    def order(self, out):
        with open(out + "/ran.txt", encoding="utf-8") as file:
            return file.read().split()

    def test_a_shuffle_is_a_random_order_that_its_seed_repeats(self):
        study = self.study(["ok"] * 12, seconds=0)
        orders = []
        for i, options in enumerate(([], ["--shuffle", "1"], ["--shuffle", "1"], ["--shuffle", "2"])):
            self.assertEqual(self.sweep("run", study, *options, out=f"{self.out}{i}").returncode, 0)
            orders.append(self.order(f"{self.out}{i}"))
        self.assertEqual(orders[0], [f"v{i}" for i in range(12)])
        self.assertEqual(orders[1], orders[2])
        self.assertNotEqual(orders[1], orders[3])
        self.assertNotEqual(orders[0], orders[1])
        self.assertEqual(sorted(orders[1]), sorted(orders[0]))

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


if __name__ == "__main__":
    main()
