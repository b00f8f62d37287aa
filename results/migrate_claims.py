#!/usr/bin/python3
"""Brings a claims.json of schema 2 to schema 3: verdicts by today's words, and what schema 2 did not know says so.

    results/migrate_claims.py OLD.json NEW.json

No number and no reason changes. REFUTED becomes NOT REPRODUCED AT THIS SCALE but for published numbers (a paper's own arithmetic). Rules were not registered
then: the entries carry no hash, and say so. OLD and NEW may be one file. Exit status 6 for a file that is no claims.json of schema 2.
"""
import argparse
import json
import sys

FROM, TO = 2, 3
UNREGISTERED = "judged before rules were registered"


class Refused(Exception):
    """What cannot be converted, and why."""


def migrated(claim):
    """The entry of today."""
    new = dict(claim)
    if claim["verdict"] == "REFUTED" and claim["basis"] != "published numbers":
        new["verdict"] = "NOT REPRODUCED AT THIS SCALE"
    new["measures"] = [{**m, "symbol": ""} for m in claim["measures"]]
    new.update(
        rule_hash="", registered="", rule_changed=UNREGISTERED, changes=[], cells=[], figure="", earlier=[],
        command=f"build/bin/claims run {claim['id']} --profile {claim['profile']}",
    )  # fmt: skip
    return new


def migrate(old, new):
    try:
        with open(old, encoding="utf-8") as stream:
            file = json.load(stream)
        if file["schema"] != FROM:
            raise Refused(f"{old} has schema {file['schema']}; this converts schema {FROM} to {TO}")
        claims = [migrated(c) for c in file["claims"]]
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(f"{old} is no claims.json ({type(error).__name__}: {error})") from error
    with open(new, "w", encoding="utf-8") as stream:
        json.dump({"schema": TO, "claims": claims}, stream, indent=1, ensure_ascii=False)
        stream.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD.json")
    parser.add_argument("new", metavar="NEW.json")
    options = parser.parse_args()
    try:
        migrate(options.old, options.new)
    except Refused as error:
        print(f"migrate_claims.py: {error}", file=sys.stderr)
        return 6
    except OSError as error:
        print(f"migrate_claims.py: {error.strerror}: {error.filename}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
