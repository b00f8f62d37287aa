# labels: docs, mpi
# timeout: 400
# needs: train_gpt
"""Every command of docs/training.md runs as it stands, but for counts: two steps (a round of an outer loop: one), as many micro-batches of one sequence each, two batches of validation; and says what it
is there to show."""
import os
import re
import shlex
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("THINWIRE_BIN_DIR", os.path.join(ROOT, "build", "bin"))
COUNTS = ("--steps", "--serial-steps", "--warmup")
GLOBAL_BATCH = 8  # train_gpt's own


def commands():
    with open(os.path.join(ROOT, "docs", "training.md"), encoding="utf-8") as file:
        for block in re.findall(r"^```\n(.*?)^```$", file.read(), flags=re.M | re.S):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("mpirun "):
                    yield line


def short(command):
    """As a list, with the programs of this build, at most two steps of each kind and few sequences: what ranks exchange, and how often in a step, does not depend on how many a micro-batch holds."""
    words = shlex.split(command, comments=True)
    micro, batch = (int(words[words.index(name) + 1]) if name in words else own for name, own in (("--micro-batch", 1), ("--global-batch", GLOBAL_BATCH)))
    for name, value in (("--micro-batch", 1), ("--global-batch", batch // micro), ("--eval-sequences", 2 * batch // micro)):
        if name in words:
            words[words.index(name) + 1] = str(value)
        else:
            words += [name, str(value)]
    for at, word in enumerate(words):
        if word in COUNTS:
            words[at + 1] = str(min(2, int(words[at + 1])))
        elif "inner_steps=" in word:
            words[at] = re.sub(r"inner_steps=\d+", "inner_steps=1", word)
        elif word.startswith("build/bin/"):
            words[at] = os.path.join(BIN, os.path.basename(word))
    return words[:1] + ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"] + [w for w in words[1:] if w != "--oversubscribe"]


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not os.path.exists(os.path.join(BIN, "train_gpt")):
            raise unittest.SkipTest("train_gpt is not built")

    def test_every_command_runs_and_names_what_it_compresses(self):
        found = list(commands())
        self.assertGreaterEqual(len(found), 6)
        for command in found:
            with self.subTest(command), tempfile.TemporaryDirectory() as folder:
                done = subprocess.run(short(command), cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
                for traffic, codec in re.findall(r"--compress\.(\w+)(?:\.inside)? ([\w:=,.+]+)", command):
                    self.assertRegex(done.stdout, rf"{traffic}\S* +\S*{re.escape(codec.split(':')[0].split('+')[0])}", "the table of what was sent")


if __name__ == "__main__":
    unittest.main()
