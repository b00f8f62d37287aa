# labels: unit
# slow: yes
# timeout: 900
"""Each collection of the corpus, made alone from the packages' versions of docs/papers/text_tasks.md, has the bytes that the page states. Those of which a
package is missing or of another version are passed over; skipped when these are all."""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, ROOT)
sys.dont_write_bytecode = True
from experiments.text_tasks.lib import discovery  # noqa: E402

SKIPPED = 77  # CTest's SKIP_RETURN_CODE
ROW = re.compile(r"^\| (\w+) \| ([^|]+) \| [^|]+ \| [^|]+ \| `([0-9a-f]{16})` \|$", re.MULTILINE)  # name, packages, licence, size, hash
PACKAGE = re.compile(r"`([^` ]+) ([^` ]+)`")


def installed(package):
    """The version that is installed, or an empty text."""
    done = subprocess.run(["dpkg-query", "--show", "--showformat=${Version}", package], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def made(name):
    with tempfile.TemporaryDirectory() as out:
        program = os.path.join(ROOT, "experiments", "text_tasks", "make_corpus.py")
        done = subprocess.run(["/usr/bin/python3", program, "--out", out, "--collections", name], capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    return (re.search(r"bytes, sha256 ([0-9a-f]{16})", done.stdout) or [None, ""])[1]


def main():
    with open(os.path.join(ROOT, "docs", "papers", "text_tasks.md"), encoding="utf-8") as file:
        rows = {name: (dict(PACKAGE.findall(packages)), digest) for name, packages, digest in ROW.findall(file.read())}
    collections = discovery.collections()
    failures = [f"{name} is a collection and not on the page, or the reverse" for name in {*rows} ^ {*collections}]
    failures += [f"{name} reads other packages than the page says" for name in {*rows} & {*collections} if set(rows[name][0]) != set(collections[name].packages)]
    compared = 0
    for name, (packages, digest) in rows.items() if not failures else ():
        if any(installed(package) != version for package, version in packages.items()):
            print(f"passed over: {name}, whose packages are not installed in the page's versions")
            continue
        compared += 1
        found = made(name)
        if found != digest:
            failures.append(f"{name} is {found} and the page says {digest}")
    for failure in failures:
        print("FAILED:", failure)
    return 1 if failures else 0 if compared else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
