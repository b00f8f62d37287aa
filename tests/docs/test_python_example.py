# labels: unit
# timeout: 120
"""The Python example of docs/results-schema.md runs as it stands, on a collected file where a user has one."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REFERENCE = os.path.join(ROOT, "results", "reference", "cpu-2-cores", "quick.h5")


class Example(unittest.TestCase):
    def test_it_draws_what_it_says_from_a_collected_file(self):
        with open(os.path.join(ROOT, "docs", "results-schema.md"), encoding="utf-8") as stream:
            examples = re.findall(r"```python\n(.*?)```", stream.read(), re.S)
        self.assertEqual(len(examples), 1)
        self.assertLessEqual(len(examples[0].splitlines()), 10)
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "out", "quick"))
            shutil.copy(REFERENCE, os.path.join(folder, "out", "quick", "collected.h5"))
            environment = {**os.environ, "MPLBACKEND": "Agg", "MPLCONFIGDIR": folder}
            done = subprocess.run(
                ["/usr/bin/python3", "-W", "error::RuntimeWarning", "-c", examples[0]],
                cwd=folder, env=environment, capture_output=True, text=True, check=False,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(folder, "speedup.png"), "rb") as stream:
                picture = stream.read()
            self.assertEqual(picture[:4], b"\x89PNG")
            self.assertGreater(len(picture), 10_000)  # an empty frame is smaller


if __name__ == "__main__":
    unittest.main()
