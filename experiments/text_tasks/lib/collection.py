"""How a part of the corpus declares itself: one `@Collection(...)` above the function that yields its texts. The file's name is the collection's.

    @Collection(packages=("perl-doc",), licence="GPL-1+ or Artistic")
    def texts(files):
        for path in files(".pod"):
            yield pod.text_of(read(path))
"""
import gzip
import os
import subprocess
import zlib

from plots.lib.errors import CorruptData, EnvironmentFailure


class Collection:
    """`packages`: of Debian, whose files the function may read; `licence`: of the texts; `prose`: whether paragraphs that are no sentences are left out."""

    def __init__(self, packages, licence, prose=True):
        self.packages, self.licence, self.prose = packages, licence, prose
        self.name = self.about = ""
        self._texts = None

    def __call__(self, texts):
        """As a decorator: takes the function (files) -> texts, and stands in its place."""
        self.name = os.path.splitext(os.path.basename(texts.__code__.co_filename))[0]
        self.about = (texts.__globals__.get("__doc__") or "").strip().partition("\n")[0]
        self._texts = texts
        return self

    def texts(self, unpacked=None):
        """Texts whose paragraphs blank lines part. `unpacked`: a folder with PACKAGE/usr/... of each package, where the packages are not installed."""

        def files(*endings):
            """Paths of the packages' files with one of these endings, in the order in which they are or would be installed; never none."""
            found = {name: path for package in self.packages for name, path in _files_of(package, unpacked) if path.endswith(endings)}
            if not found:
                raise EnvironmentFailure(
                    f"no file *{', *'.join(endings)} of {' '.join(self.packages)} is there; dpkg may have been told to leave documents out"
                    " (path-exclude in /etc/dpkg/dpkg.cfg.d)"
                )
            return [found[name] for name in sorted(found)]

        return self._texts(files)


def _files_of(package, unpacked):
    """(its name when installed, where it is) of each file."""
    root = ""
    if unpacked:
        root = os.path.join(unpacked, package)
        if not os.path.isdir(root):
            raise EnvironmentFailure(f"the folder {root} is missing; unpack the package there: dpkg -x {package}_*.deb {root}")
        paths = (os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names)
    else:
        done = subprocess.run(["dpkg-query", "--listfiles", package], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise EnvironmentFailure(f"the package {package} is not installed; scripts/setup.sh --study installs it")
        paths = done.stdout.splitlines()
    return [(path[len(root) :], path) for path in paths if os.path.isfile(path)]  # manual pages of two names are links to one file


def read(path):
    """A file's text, decompressed where its name says gzip (dictzip is one)."""
    opened = gzip.open if path.endswith((".gz", ".dz")) else open
    try:
        with opened(path, "rt", encoding="utf-8", errors="replace") as file:
            return file.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CorruptData(f"{path} is damaged ({error}); reinstall its package") from error
