# labels: unit
# timeout: 120
"""experiments/text_tasks/make_corpus.py on made-up packages: every collection, repeats, what goes wrong, a collection that somebody adds."""
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, ROOT)
sys.dont_write_bytecode = True
from experiments.text_tasks.lib import discovery  # noqa: E402

COLLECTIONS = discovery.collections()
SHARED = "This sentence is in all of the packages, and it is to be kept in one of them."

ADDED = '''"""odd: one sentence."""
from experiments.text_tasks.lib.collection import Collection


@Collection(packages=("dict-foldoc",), licence="none")
def texts(files):
    yield "This is the only sentence of the collection that somebody has added to it."
'''


def own(name):
    return f"This sentence is of the package {name.translate(str.maketrans('-.0123456789', '  abcdefghij'))} alone, and is to be kept for it."


def dictionary(name):
    return f"Word \\Word\\, n.\n   1. A definition that is of three words and more.\n      [1913 Webster]\n\n   {own(name)}\n\n   {SHARED}\n"


def write_packages(folder):
    """A file of every package, with a sentence of its own and one that all have."""
    page = "<p>{}</p><p>{}</p>"
    files = {
        "dict-gcide/usr/share/dictd/gcide.dict.dz": dictionary("dict-gcide"),
        "dict-foldoc/usr/share/dictd/foldoc.dict.dz": dictionary("dict-foldoc"),
        "dict-jargon/usr/share/dictd/jargon.dict.dz": dictionary("dict-jargon"),
        "manpages/usr/share/man/man7/x.7.gz": f".SH X\n{own('manpages')}\n.PP\n{SHARED}\n",
        "manpages-dev/usr/share/man/man2/x.2.gz": f".SH X\n{own('manpages-dev')}\n",
        "perl-doc/usr/share/perl/5.36.0/pod/perl.pod": f"=head1 X\n\n{own('perl-doc')}\n\n{SHARED}\n",
        **{f"{name}/usr/share/doc/x.html": page.format(own(name), SHARED) for name in ("git-doc", "postgresql-doc-15", "python3.11-doc", "linux-doc-6.1")},
        "bible-kjv-text/usr/lib/bible.data": "",
        "bible-kjv/usr/bin/bible": f"#!/bin/sh\necho 'Ge1:1 {own('bible-kjv')}'\necho '1Sam2:3 {SHARED}'\n",
    }
    for path, text in files.items():
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with (gzip.open if path.endswith(("z", ".gz")) else open)(path, "wt", encoding="utf-8") as file:
            file.write(text)
    os.chmod(os.path.join(folder, "bible-kjv/usr/bin/bible"), 0o755)


def run(*arguments, root=ROOT):
    program = os.path.join(root, "experiments", "text_tasks", "make_corpus.py")
    return subprocess.run(["/usr/bin/python3", program, *arguments], capture_output=True, text=True, check=False)


class MakeCorpus(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.packages, self.out = os.path.join(scratch.name, "packages"), os.path.join(scratch.name, "out")
        write_packages(self.packages)

    def read(self, name):
        with open(os.path.join(self.out, name + ".txt"), encoding="ascii") as file:
            return file.read()

    def test_every_collection_has_its_sentences_and_a_repeat_is_in_the_first_alone(self):
        done = run("--out", self.out, "--unpacked", self.packages)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(os.listdir(self.out)), [name + ".txt" for name in COLLECTIONS])
        self.assertEqual([name for name in COLLECTIONS if SHARED in self.read(name)], [min(COLLECTIONS)])
        for name, collection in COLLECTIONS.items():
            wanted = [own(package) for package in collection.packages if package != "bible-kjv-text"] if collection.prose else []
            lines = self.read(name).splitlines()
            self.assertTrue(set(wanted) <= set(lines), f"{name}: {lines}")
            self.assertIn(f"{name} {len(lines)} paragraphs, ", done.stdout)
        self.assertEqual(self.read("headwords"), "word : a definition that is of three words and more\n")
        whole = "".join(self.read(name) for name in COLLECTIONS)
        self.assertEqual(done.stdout.splitlines()[-1], f"all of them, in this order: sha256 {hashlib.sha256(whole.encode()).hexdigest()}")

    def test_files_of_two_packages_are_read_as_if_they_were_installed(self):
        self.assertEqual(run("--out", self.out, "--unpacked", self.packages, "--collections", "manpages").returncode, 0)
        self.assertEqual(self.read("manpages").splitlines()[:2], [own("manpages-dev"), own("manpages")], "man2 comes before man7")

    def test_the_same_packages_give_the_same_bytes_whatever_the_order_asked_for(self):
        one = run("--out", self.out, "--unpacked", self.packages, "--collections", "perl,git")
        other = run("--out", self.out, "--unpacked", self.packages, "--collections", "git,perl")
        self.assertEqual((one.returncode, one.stdout), (0, other.stdout))

    def test_a_missing_package_is_named_and_nothing_is_left_half_written(self):
        shutil.rmtree(os.path.join(self.packages, "perl-doc"))
        done = run("--out", self.out, "--unpacked", self.packages, "--collections", "git,perl")
        self.assertEqual((done.returncode, os.listdir(self.out)), (3, ["git.txt"]))
        self.assertIn("perl-doc", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_a_package_without_documents_is_named(self):
        os.remove(os.path.join(self.packages, "git-doc/usr/share/doc/x.html"))
        done = run("--out", self.out, "--unpacked", self.packages, "--collections", "git")
        self.assertEqual(done.returncode, 3)
        self.assertIn("path-exclude", done.stderr)

    def test_a_damaged_file_and_one_without_prose_are_named(self):
        path = os.path.join(self.packages, "dict-foldoc/usr/share/dictd/foldoc.dict.dz")
        with open(path, "rb") as file:
            whole = file.read()
        with open(path, "wb") as file:
            file.write(whole[: len(whole) // 2])
        done = run("--out", self.out, "--unpacked", self.packages, "--collections", "foldoc")
        self.assertEqual(done.returncode, 6)
        self.assertIn("foldoc.dict.dz is damaged", done.stderr)
        with gzip.open(path, "wt") as file:
            file.write("nothing\n")
        done = run("--out", self.out, "--unpacked", self.packages, "--collections", "foldoc")
        self.assertEqual(done.returncode, 3)
        self.assertIn("no prose", done.stderr)

    def test_wrong_usage_lists_what_there_is(self):
        self.assertEqual(run().returncode, 2)
        done = run("--out", self.out, "--collections", "git,none")
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown collection none; there are bible, ", done.stderr)
        self.assertFalse(os.path.exists(self.out))

    def test_a_collection_is_added_by_adding_a_file(self):
        root = os.path.join(os.path.dirname(self.out), "tree")
        for folder in ("experiments/text_tasks", "plots/lib"):
            shutil.copytree(os.path.join(ROOT, folder), os.path.join(root, folder), ignore=shutil.ignore_patterns("__pycache__"))
        with open(os.path.join(root, "experiments/text_tasks/corpus/odd.py"), "w", encoding="utf-8") as file:
            file.write(ADDED)
        done = run("--out", self.out, "--unpacked", self.packages, "--collections", "odd", root=root)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("odd: one sentence. dict-foldoc, none", run("--list", root=root).stdout)


if __name__ == "__main__":
    unittest.main()
