# labels: docs
# timeout: 60
"""docs/claims.md shows what the committed claims.json say, README what a run prints of the committed reference."""
import os
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Tables(unittest.TestCase):
    def test_the_page_is_what_the_program_writes(self):
        done = subprocess.run(
            ["/usr/bin/python3", os.path.join(ROOT, "plots", "report", "claims_markdown.py"), "--check"], capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_readme_shows_what_the_reference_prints(self):
        done = subprocess.run(["/usr/bin/python3", os.path.join(ROOT, "plots", "report", "readme.py"), "--check"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
