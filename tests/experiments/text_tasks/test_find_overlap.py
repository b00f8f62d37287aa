# labels: unit
# timeout: 60
"""experiments/text_tasks/find_overlap.py: which dev texts it finds in a corpus, and what it says of folders without files."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
PROGRAM = os.path.join(ROOT, "experiments", "text_tasks", "find_overlap.py")


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class FindOverlap(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.corpus, self.tasks = os.path.join(self.scratch.name, "corpus"), os.path.join(self.scratch.name, "tasks")
        write(os.path.join(self.corpus, "one.txt"), "Before, it ran: as fast as \"it\" could!\nThe end of a\nparagraph is the end of the search.\n")
        write(os.path.join(self.corpus, "two.txt"), "Here, too, ran as fast as it could.\n")
        write(os.path.join(self.tasks, "pair", "dev.tsv"), "label\tsentence1\tsentence2\n0\tran as fast as it could\tran as fast as it could not\n1\tfast as it\tran as fast as it could\n")
        write(os.path.join(self.tasks, "single", "dev.tsv"), "score\tsentence\n2.5\tthe end of a paragraph\n")

    def run_it(self, *options, corpus=None, tasks=None):
        command = [sys.executable, PROGRAM, "--corpus", corpus or self.corpus, "--tasks", tasks or self.tasks, *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def lines(self, *options):
        done = self.run_it(*options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()[1:]

    def test_texts_are_found_without_case_and_punctuation_and_within_a_paragraph(self):
        self.assertEqual(self.lines(), ["pair: 1 of 2 (1 shorter ones not asked)", "single: 0 of 1 (0 shorter ones not asked)"])

    def test_shorter_texts_are_asked_for_where_that_is_wanted(self):
        self.assertEqual(self.lines("--words", "3"), ["pair: 2 of 3 (0 shorter ones not asked)", "single: 0 of 1 (0 shorter ones not asked)"])

    def test_shown_are_text_labels_and_places(self):
        self.assertEqual(self.lines("--show")[1], "  0/1 ran as fast as it could (in one, two)")

    def test_folders_without_files_are_named(self):
        for options, named in (({"corpus": self.tasks}, self.tasks), ({"tasks": self.corpus}, self.corpus)):
            done = self.run_it(**options)
            self.assertEqual((done.returncode, named in done.stderr), (3, True), done.stderr)
        self.assertEqual(self.run_it("--words", "0").returncode, 2)


if __name__ == "__main__":
    unittest.main()
