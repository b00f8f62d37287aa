# labels: unit
# timeout: 900
"""The report in a browser: filters, sorting and the address that keeps them. Skipped where Chromium is not installed."""
import html.parser
import os
import re
import shutil
import subprocess
import sys
import unittest
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import SEED, run, scratch_folder
import make_collected as made

from plots.report import cell_table

CHROMIUM = next((path for name in ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
LINKS = ("shm", "netns:100mbit", "netns:1gbit")


class Tables(html.parser.HTMLParser):
    """Per section: rows of its tables as [(hidden, texts)], and what headers say about sorting."""

    def __init__(self, content):
        super().__init__()
        self.sections, self.sorted, self.counts, self.output = {}, [], [], ""
        self.details, self.selects, self.buttons = {}, [], 0
        self._open = []  # ids of the sections around
        self._section = self._cell = self._in = None
        self.feed(content)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "section":
            self._open.append(attributes["id"])
            self._section = self.sections.setdefault(attributes["id"], [])
        elif tag == "tr" and self._section is not None:
            self._section.append(("hidden" in attributes, []))
        elif tag in ("td", "th") and self._section:
            self._section[-1][1].append("")
            self._cell = True
            if "aria-sort" in attributes:
                self.sorted.append((len(self._section[-1][1]) - 1, attributes["aria-sort"]))
        elif tag == "button":
            self.buttons += attributes.get("class") == "sort"
        elif tag == "details":
            self.details.setdefault(self._open[-1], []).append("open" in attributes)
        elif tag == "select":
            self.selects.append([])
        elif tag == "option":
            self.selects[-1].append(attributes.get("value"))
        if tag in ("output", "p"):
            self._in = "output" if tag == "output" else attributes.get("class")
            if self._in == "count" and "hidden" not in attributes:
                self.counts.append("")

    def handle_endtag(self, tag):
        if tag == "section":
            self._open.pop()
            self._section = self.sections[self._open[-1]] if self._open else None
        if tag in ("td", "th"):
            self._cell = None
        if tag in ("output", "p"):
            self._in = None

    def handle_data(self, data):
        if self._cell:
            self._section[-1][1][-1] += data.strip()
        elif self._in == "output":
            self.output += data
        elif self._in == "count" and self.counts:
            self.counts[-1] += data

    def shown(self, section):
        """Texts of the rows of a section that are not hidden, without headers."""
        return [texts for hidden, texts in self.sections[section] if not hidden and texts[0] != "link"]


class InABrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.out = scratch_folder()
        collected = os.path.join(cls.out, "collected.h5")
        made.everything(collected, seed=SEED, links=LINKS)
        done = run("report.py", "--collected", collected, "--out", cls.out, "--only", "training", "links")
        assert done.returncode == 0, done.stderr
        with open(os.path.join(cls.out, "report.html"), encoding="utf-8") as stream:
            cls.plain = Tables(stream.read())

    def dump(self, address, *options):
        done = subprocess.run(
            [
                CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom",
                f"--user-data-dir={os.path.join(self.out, 'profile')}", "--virtual-time-budget=2000", *options,
                f"file://{urllib.parse.quote(self.out)}/{address}",
            ],
            capture_output=True, text=True, timeout=120, check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def open(self, fragment=""):
        return Tables(self.dump("report.html" + fragment))

    def test_without_javascript_every_row_is_there(self):
        self.assertGreater(len(self.plain.shown("cells")), 400)
        self.assertFalse(any(hidden for rows in self.plain.sections.values() for hidden, _ in rows))
        self.assertEqual((self.plain.buttons, self.plain.selects), (0, []))

    def test_without_a_filter_the_browser_shows_the_same(self):
        page = self.open()
        self.assertEqual(page.shown("cells"), self.plain.shown("cells"))
        self.assertEqual(page.output, "")
        self.assertEqual(set(page.selects[0]), {"", *{row[0] for row in self.plain.shown("cells")}})
        self.assertGreater(page.buttons, 40)  # each header of each table can be reached by keyboard

    def test_the_address_sets_filters_in_every_table_that_has_the_column(self):
        page = self.open("#cells?link=netns%3A1gbit&traffic=tp_forward")
        expected = [row for row in self.plain.shown("cells") if row[:2] == ["netns:1gbit", "tp_forward"]]
        self.assertGreater(len(expected), 20)
        self.assertEqual(page.shown("cells"), expected)
        self.assertEqual({row[0] for row in page.shown("summary") if row[0] in LINKS}, {"netns:1gbit"})
        self.assertEqual([row[:2] for row in page.shown("verdict")], [["netns:1gbit", "tp_forward"]])
        self.assertIn(f"{len(expected)} of {len(self.plain.shown('cells'))} rows fit the filter", page.counts)
        self.assertEqual(page.details["cells"], [True])  # the section that the address names is unfolded
        self.assertEqual(page.details["links"], [False])

    def test_a_folded_figure_unfolds_where_the_address_names_it(self):
        page = self.open("#links")
        self.assertEqual((page.details["links"], page.details["cells"]), ([True], [False]))

    def test_nothing_is_wider_than_1280_pixels(self):
        """Folded parts opened. Of the tables only those of raw rows, of cells and launches, may scroll in their boxes."""
        with open(os.path.join(self.out, "report.html"), encoding="utf-8") as stream:
            page = stream.read()
        script = "<script>for (const d of document.querySelectorAll('details')) d.open = true; document.title = document.documentElement.scrollWidth + ' of ' + innerWidth"
        script += " + ': ' + [...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.closest('section').id).join(' ')</script>"
        with open(os.path.join(self.out, "wide.html"), "w", encoding="utf-8") as stream:
            stream.write(page.replace("</body>", script + "</body>"))
        done = self.dump("wide.html", "--window-size=1280,900")
        width, window, scrolling = re.search(r"<title>(\d+) of (\d+): (.*)</title>", done).groups()
        width, window = int(width), int(window)
        self.assertGreater(window, 1000)
        self.assertLessEqual(width, window)
        self.assertLessEqual(set(scrolling.split()), {"cells", "provenance"})

    def test_text_is_searched_in_all_cells_of_a_row_and_may_match_nothing(self):
        page = self.open("#cells?q=TOPK")
        self.assertEqual(page.shown("cells"), [row for row in self.plain.shown("cells") if any("topk" in text.lower() for text in row)])
        page = self.open("#cells?q=" + urllib.parse.quote("<script>alert(1)</script>"))
        self.assertEqual(page.shown("cells"), [])
        self.assertIn("No row fits the filter.", page.counts)

    def test_numbers_sort_by_value_and_what_is_missing_stays_last(self):
        column = cell_table.HEADER.index("total (ms)")
        for direction, word in (("asc", "ascending"), ("desc", "descending")):
            page = self.open(f"#cells?sort=cells.{column}.{direction}")
            values = [row[column] for row in page.shown("cells")]
            numbers = [float(value.replace(",", "")) for value in values if value != "n/a"]
            self.assertEqual(numbers, sorted(numbers, reverse=direction == "desc"))
            self.assertGreater(len(set(numbers)), 100)
            self.assertNotIn("n/a", values[: len(numbers)])
            self.assertEqual(page.sorted, [(column, word)])
            self.assertEqual(sorted(page.shown("cells")), sorted(self.plain.shown("cells")))

    def test_an_address_that_means_nothing_shows_everything(self):
        for fragment in ("#nosuch", "#cells?sort=cells.99.asc&nosuch=1", "#?sort=x", "#%E0%A4%A?link="):
            self.assertEqual(len(self.open(fragment).shown("cells")), len(self.plain.shown("cells")), fragment)


if __name__ == "__main__":
    if CHROMIUM is None:
        print("SKIPPED: Chromium is not installed; apt-get install chromium")
        sys.exit(77)
    unittest.main()
