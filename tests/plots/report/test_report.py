# labels: unit
# timeout: 900
"""The programs as a user runs them: files, self-contained report, messages and exit codes."""
import base64
import hashlib
import html.parser
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import ROOT, SEED, names, read_csv, run, scratch_folder
import make_activations
import make_claims
import make_collected as made
import make_race
import numpy as np

from plots.lib.figure import Source

FIGURES = names(Source.BENCHES, Source.TRAINING_RUNS)  # those that a collected file of a host shows


class Page(html.parser.HTMLParser):
    """Everything that a browser would fetch or follow, anchors, headings and the text."""

    def __init__(self, content):
        super().__init__()
        self.fetched, self.followed, self.anchors, self.text, self.tags = [], [], set(), [], []
        self.headings, self.contents, self.bare_tables = [], [], 0
        self._quiet, self._around, self._in = 0, [], None
        self.feed(content)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        if tag in ("div", "table"):
            self.bare_tables += tag == "table" and self._around[-1:] != ["scroll"]
            self._around.append(attributes.get("class"))
        if tag in ("h2", "nav"):
            self._in = self.headings if tag == "h2" else self.contents
        if "id" in attributes:
            self.anchors.add(attributes["id"])
        for name in ("src", "srcset", "data", "poster"):
            if name in attributes:
                self.fetched.append(attributes[name])
        if "href" in attributes:
            (self.followed if tag == "a" else self.fetched).append(attributes["href"])
        self._quiet += tag in ("style", "script")

    def handle_endtag(self, tag):
        self._quiet -= tag in ("style", "script")
        if tag in ("div", "table"):
            self._around.pop()
        if tag in ("h2", "nav"):
            self._in = None

    def handle_data(self, data):
        if self._in is not None and data.strip():
            self._in.append(data.strip())
        if not self._quiet:
            self.text.append(data)


class WholeReport(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.out = scratch_folder()
        cls.collected = os.path.join(cls.out, "collected.h5")
        made.everything(cls.collected, seed=SEED, links=("shm", "netns:100mbit", "netns:1gbit"), shapes=made.SHAPES[::3])
        cls.finished = run("report.py", "--collected", cls.collected, "--out", cls.out)
        assert cls.finished.returncode == 0, cls.finished.stderr
        cls.summary = run("summary.py", "--collected", cls.collected)
        assert cls.summary.returncode == 0, cls.summary.stderr
        with open(os.path.join(cls.out, "report.html"), encoding="utf-8") as stream:
            cls.content = stream.read()
        cls.page = Page(cls.content)
        cls.text = " ".join(" ".join(cls.page.text).split())

    def test_every_figure_comes_as_pdf_png_and_csv_with_the_hash_of_the_input(self):
        with open(self.collected, "rb") as stream:
            digest = hashlib.sha256(stream.read()).hexdigest()
        for name in FIGURES:
            stem = os.path.join(self.out, "figures", name)
            for ending, magic in (("pdf", b"%PDF"), ("png", b"\x89PNG")):
                with open(f"{stem}.{ending}", "rb") as stream:
                    self.assertEqual(stream.read(4), magic)
            with open(f"{stem}.csv", encoding="utf-8") as stream:
                text = stream.read()
            self.assertEqual(text.splitlines()[0], f"# input-sha256: {digest}")
            self.assertTrue(read_csv(text)[1], name)
        self.assertIn(digest, self.text)
        self.assertFalse([f for f in os.listdir(os.path.join(self.out, "figures")) if f.endswith(".tmp")])

    def test_report_fetches_nothing_from_outside(self):
        self.assertEqual(self.page.tags.count("script"), 1)  # its own, inline
        self.assertRegex(self.content, r"<script>\n")
        script = self.content.split("<script>")[1].split("</script>")[0]
        self.assertNotRegex(script, r"https?:|fetch\(|XMLHttpRequest|import\b|eval\(|innerHTML|document\.write")
        self.assertIn("default-src 'none'", self.content)  # and the browser is told so
        self.assertNotIn("iframe", self.page.tags)
        self.assertTrue(
            all(source.startswith("data:") for source in self.page.fetched), self.page.fetched[:3]
        )
        self.assertEqual(
            sum(source.startswith("data:image/svg+xml;base64,") for source in self.page.fetched), len(FIGURES)
        )
        self.assertNotRegex(self.content, r"url\(|@import")
        for source in self.page.fetched:
            if "base64," in source:
                picture = base64.b64decode(source.split("base64,")[1]).decode()
                self.assertTrue(
                    all(link.startswith(("#", "data:")) for link in re.findall(r'href="([^"]*)"', picture))
                )

    def test_links_inside_the_page_and_to_the_figures_lead_somewhere(self):
        for link in self.page.followed:
            if link.startswith("#"):
                self.assertIn(link[1:], self.page.anchors)
            else:
                self.assertTrue(os.path.exists(os.path.join(self.out, link)), link)

    def test_report_counts_statuses_and_states_verdicts_cautiously(self):
        for wanted in (
            "Does it pay?",
            "MISTRUSTED share",
            "this scale",
            "How to read it",
            "Provenance",
            "link off by 21 %",
        ):
            self.assertIn(wanted, self.text)
        for name in FIGURES:
            self.assertIn(name, self.page.anchors)
        self.assertNotRegex(self.text, r"\bnan\b")

    def test_five_headings_of_which_the_first_is_the_answer(self):
        self.assertEqual([heading.partition(":")[0] for heading in self.page.headings], ["The answer", "Time", "Error", "Models and links", "Claims"])
        self.assertEqual(self.page.contents, ["thinwire", "Answer", "Time", "Error", "Models and links", "Claims"])
        self.assertLess(self.text.index("Does it pay?"), self.text.index("The fastest at any error"))

    def test_every_table_scrolls_in_a_box_of_its_own(self):
        self.assertGreater(self.page.tags.count("table"), 10)
        self.assertEqual(self.page.bare_tables, 0)
        self.assertRegex(self.content, r"\.scroll \{[^}]*overflow-x:auto")

    def test_without_a_race_page_and_terminal_say_so(self):
        self.assertIn("No race was run here", self.text)
        self.assertTrue(self.summary.stdout.startswith("No race was run here"), self.summary.stdout[:200])

    def test_a_folder_that_was_asked_for_by_name_and_holds_nothing_is_an_error(self):
        for option, name in (("--race", "race.json"), ("--claims", "claims.json")):
            done = run("summary.py", "--collected", self.collected, option, "nowhere", fresh=False)
            self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
            self.assertIn(f"nowhere holds no {name}", done.stderr)

    def test_a_race_in_the_collected_file_opens_page_and_terminal(self):
        folder = scratch_folder()
        collected = shutil.copy(self.collected, folder)
        make_race.add_to(collected)
        sentence = "On 20 Mbit/s 8 bits reaches 2.5 nats 2.92 [2.66, 3.21] times sooner than dense; on 1 Gbit/s nothing does."
        self.assertEqual(run("report.py", "--collected", collected, "--out", folder, "--only", "links", "race_times", fresh=False).returncode, 0)
        with open(os.path.join(folder, "report.html"), encoding="utf-8") as stream:
            page = stream.read()
        body = " ".join(" ".join(Page(page).text).split())
        self.assertIn(sentence, body)
        self.assertNotIn("No race was run", body)
        self.assertLess(body.index(sentence), body.index("Does it pay?"))
        self.assertLess(page.index('id="race_times"'), page.index('id="verdict"'))
        done = run("summary.py", "--collected", collected, fresh=False)
        self.assertTrue(done.stdout.startswith(sentence), done.stdout[:200])
        for wanted in ("GPT of 4 layers, made up", "3 seeds", "95 % intervals", "top 5 % did not reach it"):
            self.assertIn(wanted, " ".join(done.stdout.split()))
            self.assertIn(wanted, body)

    def test_the_terminal_leads_with_methods_that_keep_what_they_send(self):
        """Fastest of all are methods of large error; they stand further down and are said to be what they are."""
        first, _, below = self.summary.stdout.partition("The fastest at any error")
        self.assertIn("Does it pay? Methods whose result has a relative L2 error of at most 0.1", first)
        errors = [float(line.split()[-1]) for line in first.splitlines() if re.search(r"×\s+[\d.]+$", line)]
        self.assertGreater(len(errors), 3)
        self.assertLessEqual(max(errors), 0.1)
        self.assertGreater(max(float(line.split()[-1]) for line in below.splitlines() if re.search(r"×\s+[\d.]+$", line)), 0.1)

    def test_recollected_numbers_come_only_on_request_and_labelled(self):
        self.assertNotIn("recollected", self.text)
        with tempfile.TemporaryDirectory() as folder:
            published = os.path.join(folder, "published")
            os.makedirs(published)
            with open(os.path.join(published, "a.csv"), "w", encoding="utf-8") as stream:
                stream.write(
                    "paper,artifact,row,column,value,unit,provenance,source,note\nX,abstract,speed,up"
                    " to,9.75,x,recollected,memory,\nX,abstract,speed,at least,1.25,x,read,abstract page,\n"
                )
            texts = []
            for extra in ([], ["--recollected"]):
                done = run(
                    "report.py",
                    "--collected",
                    self.collected,
                    "--out",
                    folder,
                    "--only",
                    "links",
                    "--published",
                    published,
                    *extra,
                    fresh=False,
                )
                self.assertEqual(done.returncode, 0, done.stderr)
                with open(os.path.join(folder, "report.html"), encoding="utf-8") as stream:
                    texts.append(stream.read())
        self.assertIn("1.25×", texts[0])
        self.assertNotIn("9.75×", texts[0])
        self.assertRegex(texts[1], r"9\.75×.*recollected, unverified")

    def test_drawing_twice_gives_the_same_csv_and_page(self):
        with tempfile.TemporaryDirectory() as folder:
            names = ("training", "links")
            pages = []
            for _ in range(2):
                run("report.py", "--collected", self.collected, "--out", folder, "--only", *names, fresh=False)
                with open(os.path.join(folder, "report.html"), encoding="utf-8") as stream:
                    pages.append(stream.read())
            self.assertEqual(pages[0], pages[1])

    def test_summary_lists_each_link_and_what_pays(self):
        for link in ("shm", "netns:100mbit", "netns:1gbit"):
            self.assertIn(link, self.summary.stdout)
        self.assertLess(max(map(len, self.summary.stdout.splitlines())), 140)
        self.assertIn("never pay", self.summary.stdout)
        piped = subprocess.run(
            f"/usr/bin/python3 {ROOT}/plots/report/summary.py --collected {self.collected} | head -1",
            shell=True,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual((piped.returncode, piped.stderr), (0, ""))


    def test_summary_ends_with_the_fine_tuning_corner_or_why_there_is_none(self):
        folder = scratch_folder()
        make_claims.write(folder, [make_activations.corner()])
        done = run("summary.py", "--collected", self.collected, "--claims", folder, fresh=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"T1: Top-K, 0.98 % +2.0 +0.560")
        self.assertIn("pol, accuracy", done.stdout)
        make_claims.write(folder, [make_claims.claim("activation_compression.M1", "SKIPPED", figure="fine_tuning_drop")])
        self.assertIn("activation_compression.M1 SKIPPED: because of activation_compression.M1", run("summary.py", "--collected", self.collected, "--claims", folder, fresh=False).stdout)


class BadInput(unittest.TestCase):
    """One clear error and the documented exit code; what is there stays intact."""

    def setUp(self):
        self.folder = scratch_folder()
        self.good = os.path.join(self.folder, "collected.h5")
        made.write(
            self.good,
            [made.row(program="bench_codec", traffic="codec", codec="cast", method="cast", encode_gbps=3.0)],
        )

    def fails(self, status, pattern, *arguments, program="report.py"):
        done = run(program, *arguments, fresh=False)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertRegex(done.stderr, pattern)
        self.assertNotIn("Traceback", done.stderr)

    def test_usage(self):
        self.fails(2, "--collected")
        self.fails(
            2,
            r"unknown figure nosuch; there are (race_\w+, )+speedup_map",
            "--collected",
            self.good,
            "--out",
            self.folder,
            "--only",
            "nosuch",
        )
        self.fails(2, "--collected", program="summary.py")

    def test_a_missing_file_or_folder_that_cannot_be_made(self):
        self.fails(
            3,
            "cannot read the collected results",
            "--collected",
            os.path.join(self.folder, "no.h5"),
            "--out",
            self.folder,
        )
        self.fails(3, "cannot read", "--collected", os.path.join(self.folder, "no.h5"), program="summary.py")
        self.fails(
            3,
            "cannot write the figures",
            "--collected",
            self.good,
            "--out",
            os.path.join(self.good, "below-a-file"),
            "--only",
            "links",
        )

    def test_truncated_and_foreign_files(self):
        with open(self.good, "rb") as stream:
            content = stream.read()
        cut = os.path.join(self.folder, "cut.h5")
        with open(cut, "wb") as stream:
            stream.write(content[: len(content) // 2])
        for program in ("report.py", "summary.py"):
            out = ["--out", self.folder] if program == "report.py" else []
            self.fails(6, "truncated or damaged.*sweep collect", "--collected", cut, *out, program=program)
            other = os.path.join(self.folder, "other.h5")
            made.write(other, [made.row(traffic="codec")], attributes={"schema_version": 3})
            self.fails(6, "schema version 3", "--collected", other, *out, program=program)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "report.html")))

    def test_a_full_disk_leaves_the_old_report(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full here")
        report = os.path.join(self.folder, "report.html")
        with open(report, "w", encoding="utf-8") as stream:
            stream.write("old")
        os.symlink("/dev/full", report + ".tmp")
        self.fails(
            6,
            "cannot write the figures.*free some space",
            "--collected",
            self.good,
            "--out",
            self.folder,
            "--only",
            "links",
        )
        with open(report, encoding="utf-8") as stream:
            self.assertEqual(stream.read(), "old")

    def test_a_run_without_links_or_training_still_reports_and_says_why(self):
        rng = np.random.default_rng(SEED)
        made.write(
            self.good,
            list(
                made.activation_rows(
                    rng, ["shm"], layouts=((2, 2),), shapes=((2, 16),), methods=("none", "T1", "Q3")
                )
            ),
        )
        # These of all: tests/plots/figures/test_every_figure.py draws every figure without data.
        done = run("report.py", "--collected", self.good, "--out", self.folder, "--only", "training", "links", "speedup_map", "stage_split", fresh=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("without data", done.stdout)
        with open(os.path.join(self.folder, "figures", "training.csv"), encoding="utf-8") as stream:
            comments, rows = read_csv(stream.read())
        self.assertEqual(rows, [])
        self.assertIn("no data because", " ".join(comments))


if __name__ == "__main__":
    unittest.main()
