"""A page of Markdown of which a program writes a part."""
import argparse
import sys


def run(description, page, written, stale):
    """The main of such a program: `written(text)` is the page as it should be. With --check nothing is written, and exit status 1 says `stale` where the page is another."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 where the page is out of date")
    options = parser.parse_args()
    with open(page, encoding="utf-8") as stream:
        old = stream.read()
    new = written(old)
    if options.check:
        if new != old:
            print(stale, file=sys.stderr)
        return int(new != old)
    with open(page, "w", encoding="utf-8") as stream:
        stream.write(new)
    return 0
