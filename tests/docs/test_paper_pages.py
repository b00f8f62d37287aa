# labels: docs
# timeout: 60
"""The pages of docs/papers/: citations lead to a page and a heading that exist; the pages' tables of claims, claims.csv and the claims
that experiments/claims registers say the same."""
import csv
import os
import re
import subprocess
import unittest

ROOT = os.environ.get("THINWIRE_SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = "docs/papers"
LARGEST = 1 << 20  # bytes; larger files are data
COLUMNS = ["id", "statement", "provenance", "built"]
IN_CODE = "in code"  # the verdict column of a claim that is built

# papers/PAGE.md, then perhaps "#anchor", and then headings in quotation marks (escaped ones in a string) or a section's number.
QUOTED = r'\\?"[^"\\\n]+\\?"'
CITATION = re.compile(rf"papers/([a-z_]+)\.md(#[\w-]+)?((?:\]\([^)]*\)|\)|`)*(?:,|:| and)? {QUOTED}(?:(?:,| and) {QUOTED})*|[,:]? sections? [0-9])?")
CLAIM = re.compile(r"^\| `([a-z_]+\.[CM][0-9]+)` \| (.*) \| (.*) \| (.*) \|$", re.M)


def sources(root):
    """Files of the clone that git does not ignore; of a folder that is no clone, or without git, all but what a build or a run leaves there."""
    if os.path.exists(os.path.join(root, ".git")):
        command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        try:
            listed = subprocess.run(command, capture_output=True, text=True, check=False)
            if listed.returncode == 0 and listed.stdout:
                return sorted(name for name in listed.stdout.split("\0") if name)
        except FileNotFoundError:
            pass  # no git here
    found = []
    for folder, below, files in os.walk(root):
        below[:] = [name for name in below if not name.startswith((".", "build", "out")) and name != "__pycache__"]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in files]
    return sorted(found)


def text_of(root, path):
    """The file's text; empty for what is no text, or too large for it."""
    path = os.path.join(root, path)
    if not os.path.isfile(path) or os.path.getsize(path) > LARGEST:
        return ""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        return ""


def joined(text):
    """The text with lines joined, so that a citation may go on in the next line of a comment or of a document."""
    return re.sub(r"[ \t]*\n[ \t]*(?:(?://+|#+|\*) ?)?", " ", text)


def citations(text):
    """(page, headings, anchor, whether a section's number stands in their place) of every citation."""
    for page, anchor, rest in CITATION.findall(joined(text)):
        quoted = re.findall(r'\\?"([^"\\\n]+)\\?"', rest)
        yield page, quoted, anchor.removeprefix("#"), bool(re.search(r"sections? [0-9]$", rest))


def headings(page):
    return [line.lstrip("#").strip() for line in page.splitlines() if re.match(r"#+ ", line)]


def anchor_of(heading):
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def dangling(text, pages):
    """What is wrong with the citations of a text; `pages`: text of every page by its name."""
    for page, quoted, anchor, numbered in citations(text):
        if page not in pages:
            yield f"{page}.md does not exist"
            continue
        if numbered:
            yield f"{page}.md is cited by a section's number; pages have headings"
        there = headings(pages[page])
        for heading in quoted:
            if heading not in there:
                yield f'{page}.md has no heading "{heading}"'
        if anchor and anchor not in map(anchor_of, there):
            yield f"{page}.md has no heading #{anchor}"


def registered(path, text):
    """Ids, without the letter of a part, that a source of experiments/claims/PAGE/ has as strings of their own: those it registers."""
    page = re.match(r"experiments/claims/([a-z_]+)/.*\.cpp$", path)
    return set(re.findall(rf'"({page[1]}\.[CM][0-9]+)[a-z]?"', text)) if page else set()


def twice(names):
    return sorted({name for name in names if names.count(name) > 1})


def disagreements(tables, rows, built):
    """Between the pages' tables (id -> statement, provenance, verdict), the rows of claims.csv and the registered ids."""
    listed = {row["id"]: row for row in rows}
    for identifier in sorted(set(tables) | set(listed) | set(built)):
        if identifier not in tables:
            yield f"{identifier} is in no page's table of claims"
        elif identifier not in listed:
            yield f"{identifier} is not in claims.csv"
        else:
            statement, provenance, verdict = tables[identifier]
            row = listed[identifier]
            if (statement, provenance) != (row["statement"], row["provenance"]):
                yield f"{identifier}: page and claims.csv differ"
            if row["built"] != ("yes" if identifier in built else "no"):
                yield f"{identifier}: claims.csv says built = {row['built']!r}"
            if (verdict == IN_CODE) != (identifier in built):
                yield f"{identifier}: the page's verdict is {verdict!r}, and it is {'registered' if identifier in built else 'not registered'}"
            if not re.search(r"\b(read|second-hand|recollected|derived)\b", provenance):
                yield f"{identifier}: {provenance!r} is no provenance"


class Finders(unittest.TestCase):
    """Each finder sees what was planted for it. Citations are put together here, so that this file has none that dangle."""

    PAGES = {"one": "# One\n\n## Claims\n\n### Worked examples\n"}

    def complaints(self, text):
        return list(dangling(text.replace("@", "docs/pap" + "ers/"), self.PAGES))

    def test_a_good_citation_passes(self):
        for text in ('see @one.md, "Claims".', '// @one.md, "Worked\n// examples" 3', "# @one.md: what", '"@one.md, \\"Claims\\""', '@one.md, "Claims" and "Worked examples"',
                     "[one](@one.md#worked-examples)", "[one](@one.md), \"Claims\"", "the list is @PAGE.md", "@claims.csv"):
            self.assertEqual([], self.complaints(text), text)

    def test_a_page_that_is_not_there(self):
        for text in ('// @two.md, "Claims"', "@two.md".replace("@", "pap" + "ers/")):
            self.assertEqual(["two.md does not exist"], self.complaints(text), text)

    def test_a_heading_that_is_not_there(self):
        wrong = ['one.md has no heading "Methods"']
        for text in ('@one.md, "Methods"', '/// (@one.md,\n/// "Methods" 2)', '@one.md, "Claims" and "Methods"',
                     '"@one.md, \\"Methods\\""', "[one](@one.md), \"Methods\""):
            self.assertEqual(wrong, self.complaints(text), text)
        self.assertEqual(["one.md has no heading #methods"], self.complaints("(@one.md#methods)"))

    def test_a_section_by_its_number(self):
        for text in ("@one.md section 2.1", "// @one.md\n// section 2", "@one.md, sections 2 and 3"):
            self.assertEqual(1, len(self.complaints(text)), text)

    def test_registered_ids_lose_their_part(self):
        text = '{.id = "one.C5b",\n const bool m = register_claim(claim("one.M1", "as two.C3 and one.C4 say", "two.C3"));'
        self.assertEqual({"one.C5", "one.M1"}, registered("experiments/claims/one/some.cpp", text))
        self.assertEqual(set(), registered("tests/experiments/claims/one.cpp", text))

    def test_ids_that_stand_twice(self):
        table = "| `one.C1` | a | read: x | in code |\n| `one.C1` | b | read: x | in code |\n"
        self.assertEqual(["one.C1"], twice([row[0] for row in CLAIM.findall(table)]))

    def test_disagreements(self):
        row = {"id": "one.C1", "statement": "s", "provenance": "read: x", "built": "yes"}
        table = {"one.C1": ("s", "read: x", IN_CODE)}
        self.assertEqual([], list(disagreements(table, [row], {"one.C1"})))
        planted = [
            (table, [row], {"one.C1", "one.C2"}, "one.C2 is in no page's table"),
            (table, [], {"one.C1"}, "not in claims.csv"),
            ({}, [row], {"one.C1"}, "in no page's table"),
            (table, [{**row, "statement": "t"}], {"one.C1"}, "differ"),
            (table, [row], set(), "built = 'yes'"),
            (table, [{**row, "built": "no"}], {"one.C1"}, "built = 'no'"),
            ({"one.C1": ("s", "read: x", "CONFIRMED iff")}, [row], {"one.C1"}, "it is registered"),
            ({"one.C1": ("s", "heard", IN_CODE)}, [{**row, "provenance": "heard"}], {"one.C1"}, "no provenance"),
        ]
        for tables, rows, built, says in planted:
            self.assertTrue(any(says in complaint for complaint in disagreements(tables, rows, built)), says)


class PaperPages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = sources(ROOT)
        folder = os.path.join(ROOT, FOLDER)
        cls.pages = {name.removesuffix(".md"): text_of(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".md") and name != "README.md"}
        cls.tables = {page: CLAIM.findall(text) for page, text in cls.pages.items()}
        with open(os.path.join(folder, "claims.csv"), encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            cls.rows, cls.columns = list(reader), reader.fieldnames

    def test_citations_lead_to_a_page_and_a_heading(self):
        found, complaints = 0, []
        for path in self.files:
            text = text_of(ROOT, path)
            found += len(list(citations(text)))
            complaints += [f"{path}: {complaint}" for complaint in dangling(text, self.pages)]
        self.assertEqual([], complaints)
        self.assertGreaterEqual(found, 30, "citations of the pages; is the search broken?")

    def test_the_index_lists_every_page(self):
        index = text_of(ROOT, f"{FOLDER}/README.md")
        self.assertEqual([], [page for page in self.pages if f"({page}.md)" not in index])

    def test_pages_say_where_statements_are_from_and_what_is_built(self):
        for page, text in self.pages.items():
            self.assertIn("Claims", headings(text), page)
            self.assertRegex(text, r"\A# .+\n\n(Built|Not built yet): ", page)
            claims = text.count(f"| `{page}.")
            self.assertEqual(claims, len(self.tables[page]), f"{page}: a row of the table that is not `id` | statement | provenance | verdict")
            self.assertEqual([], [row[0] for row in self.tables[page] if not row[0].startswith(page + ".")])

    def test_files_that_a_page_names_exist(self):
        tops = {path.split("/")[0] for path in self.files}
        for page, text in self.pages.items():
            named = [name for name in re.findall(r"`([\w.-]+(?:/[\w.-]+)+)/?`", text) if name.split("/")[0] in tops]
            self.assertEqual([], [name for name in named if not os.path.exists(os.path.join(ROOT, name))], page)

    def test_no_id_stands_twice(self):
        self.assertEqual([], twice([row[0] for rows in self.tables.values() for row in rows]))
        self.assertEqual([], twice([row["id"] for row in self.rows]))

    def test_pages_file_and_registered_claims_agree(self):
        self.assertEqual(COLUMNS, self.columns)
        built = set()
        for path in self.files:
            built |= registered(path, text_of(ROOT, path))
        self.assertGreaterEqual(len(built), 30, "registered claims; is the search broken?")
        tables = {row[0]: row[1:] for rows in self.tables.values() for row in rows}
        self.assertEqual([], list(disagreements(tables, self.rows, built)))


if __name__ == "__main__":
    unittest.main()
