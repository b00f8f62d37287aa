"""Judged claims (claims.json of `claims run`), what was not judged (`claims list --json`), and the reference run that fills in."""
import datetime
import hashlib
import json
import math
import os
from dataclasses import dataclass, field

from plots.lib import words
from plots.lib.errors import CorruptData, EnvironmentFailure

SCHEMA = 3
NAN = float("nan")


@dataclass(frozen=True)
class Measure:
    """A number of a verdict. `low`, `high`: 95 % interval, NaN where it is exact; `margin`: what the rule compares it with."""

    name: str
    value: float
    low: float
    high: float
    margin: float
    unit: str
    symbol: str = ""  # its name in the rule; empty: no rule asks for it


@dataclass(frozen=True)
class ClaimTable:
    """Numbers behind a verdict: `rows` are (label, {column: number}); NaN where a row has no such number."""

    name: str
    columns: tuple
    rows: tuple
    claim: object = field(repr=False, compare=False)

    def column(self, *words, without=()):
        """Name of the first column that contains all these words and none of `without`, in any case; nothing when there is none."""
        fits = lambda c: all(w.lower() in c.lower() for w in words) and not any(w.lower() in c.lower() for w in without)
        return next((c for c in self.columns if fits(c)), None)

    def number(self, values, *words, without=()):
        """A row's number in that column, NaN without one."""
        return values.get(self.column(*words, without=without), NAN)

    def row(self, label):
        """The numbers of one row, or nothing."""
        return next((values for name, values in self.rows if name == label), None)


@dataclass
class Claim:
    """One judged claim. `reference` is empty for this run's own verdict, else the name of the machine of the reference run."""

    id: str
    statement: str
    provenance: str
    rule: str
    basis: str
    profile: str
    when: str
    verdict: str
    because: str
    measures: list = field(default_factory=list)
    tables: list = field(default_factory=list)
    rule_hash: str = ""
    registered: str = ""  # day; empty: the rule it was judged by is not registered
    rule_changed: str = ""  # why its cells do not count as made under this rule; empty: they do
    changes: list = field(default_factory=list)  # of the rule: dictionaries date, what, why
    cells: list = field(default_factory=list)
    command: str = ""
    figure: str = ""
    earlier: list = field(default_factory=list)  # verdicts given before: dictionaries when, profile, verdict, because, rule, rule_hash
    reference: str = ""

    @property
    def kind(self):
        """How its numbers are drawn, by basis."""
        return {"event model": "modelled", "cost model": "modelled", "emulated link": "emulated", "published numbers": "published"}.get(self.basis, "measured")

    @property
    def date(self):
        return self.when[:10]

    @property
    def origin(self):
        """Empty for this run, else what must stand beside every number of it."""
        return f"reference run of {self.date} on {self.reference}" if self.reference else ""


@dataclass
class Claims:
    """What a report may show of claims. `judged` by id: this run's own verdict, else the reference's. `listed`: every claim that
    there is, as dictionaries with the key `from` (its smallest profile); empty where nobody wrote the list."""

    judged: dict = field(default_factory=dict)
    listed: list = field(default_factory=list)
    sha256: dict = field(default_factory=dict)  # origin ("" is this run) -> hash of its file
    profile: str = ""
    published: list = field(default_factory=list)  # rows of plots/lib/published.py, recollected ones only on request

    def __bool__(self):
        return bool(self.judged or self.listed)

    def ordered(self):
        return sorted(self.judged.values(), key=lambda c: order_of(c.id))

    def unjudged(self):
        """Entries of the list that have no verdict of this run, with the profile that judges them."""
        own = {c.id for c in self.judged.values() if not c.reference}
        return sorted((e for e in self.listed if e["id"] not in own), key=lambda e: order_of(e["id"]))

    def tables(self, *beginnings, name=""):
        """Tables of the claims whose id begins so ("optimus_cc.C5" has C5a, not C50), whose name contains `name`."""
        return self._tables(lambda claim: any(_begins(claim.id, beginning) for beginning in beginnings), name)

    def tables_of(self, figure, name=""):
        """Tables of the claims that name this figure as theirs: a new claim is drawn without being listed anywhere."""
        return self._tables(lambda claim: claim.figure == figure, name)

    def _tables(self, asked, name):
        return [table for claim in self.ordered() if asked(claim) for table in claim.tables if name.lower() in table.name.lower()]

    def hash_of(self, tables):
        """Of the files that these tables are from."""
        origins = sorted({table.claim.reference for table in tables})
        return " ".join(self.sha256[o] for o in origins if o in self.sha256) or "none"

    def why_none(self, *beginnings, what="numbers"):
        """Why no table was found: not judged at all (which profile judges it), or judged without such numbers."""
        asked = lambda identifier, figure: any(_begins(identifier, b) for b in beginnings)
        return self._why_none(asked, ", ".join(beginnings), what)

    def why_none_of(self, figure, what="numbers"):
        """The same of tables_of()."""
        return self._why_none(lambda identifier, own: own == figure, f"those whose figure is {figure}", what)

    def _why_none(self, asked, these, what):
        found = [c for c in self.ordered() if asked(c.id, c.figure)]
        if found:
            verdicts = ", ".join(f"{c.id} is {c.verdict}" for c in found)
            return f"no data because no judged claim holds {what} ({verdicts})."
        known = [e for e in self.listed if asked(e["id"], e.get("figure", ""))]
        if known:
            needed = ", ".join(f"{e['id']} from profile {e['from']}" for e in sorted(known, key=lambda e: order_of(e["id"])))
            return f"no data because no claim with {what} was judged ({needed} upwards)."
        return f"no data because no claim with {what} was judged ({these}): `claims run` judges them."


def origins(claims):
    """`reference runs of 2026-11-23 and 2026-11-24 on cpu-2-cores`: where those of them are from that are not of this run; empty where all are."""
    days = {}  # by machine: a page of claims may be of many runs
    for c in claims:
        if c.reference:
            days.setdefault(c.reference, set()).add(c.date)
    return words.listing([f"reference run{'s' if len(of) > 1 else ''} of {words.listing(sorted(of))} on {machine}" for machine, of in sorted(days.items())])


def order_of(identifier):
    """(page, letter, number, part): C5b after C5a and before C12, M1 after all C."""
    page, _, rest = identifier.rpartition(".")
    digits = "".join(c for c in rest if c.isdigit())
    return page, rest[:1], int(digits) if digits else 0, rest


def _begins(identifier, beginning):
    rest = identifier[len(beginning) :]
    return identifier.startswith(beginning) and not rest[:1].isdigit()


def load(folder, reference="", profile=""):
    """Claims of `folder` (claims.json, list.json), and those of the files `reference` (one, or several: one for each page of claims)
    that the folder lacks; where several of these judged a claim, the last verdict. Files that are not there give nothing; damaged ones CorruptData."""
    claims = Claims(profile=profile)
    references = [reference] if isinstance(reference, str) else list(reference)
    for path, machine in [(path, machine_of(path)) for path in references] + [(os.path.join(folder, "claims.json"), "")]:
        if path and os.path.exists(path):
            content = _read(path)
            judged = _parse(content, path)
            if judged:
                digest = hashlib.sha256(content).hexdigest()
                claims.sha256[machine] = f"{claims.sha256[machine]} {digest}" if machine in claims.sha256 else digest
            for claim in judged:
                claim.reference = machine
                if machine and claim.id in claims.judged and claims.judged[claim.id].when > claim.when:
                    continue
                claims.judged[claim.id] = claim
    listed = os.path.join(folder, "list.json")
    if os.path.exists(listed):
        try:
            claims.listed = json.loads(_read(listed))["claims"]
            if not all({"id", "statement", "from"} <= set(entry) for entry in claims.listed):
                raise KeyError("id, statement or from")
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptData(f"{listed} is no list of claims ({error}); `claims list --json` writes one") from error
    return claims


def machine_of(path):
    """results/reference/MACHINE/PAGE/claims.json is of MACHINE."""
    parts = os.path.abspath(path).split(os.sep) if path else []
    return parts[-3] if len(parts) >= 3 else "another machine"


def _read(path):
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError as error:
        raise EnvironmentFailure(f"cannot read the claims: {error.strerror} ({path})") from error


def _parse(content, path):
    try:
        file = json.loads(content)
        if file["schema"] != SCHEMA:
            raise CorruptData(f"{path}: schema {file['schema']} where this program reads {SCHEMA}; results/migrate_claims.py brings schema 2 over")
        return [_claim(entry) for entry in file["claims"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptData(f"{path} is no file of claims ({type(error).__name__}: {error}); run the claims again") from error


def _claim(entry):
    names = (
        "id", "statement", "provenance", "rule", "basis", "profile", "when", "verdict", "because",
        "rule_hash", "registered", "rule_changed", "command", "figure",
    )  # fmt: skip
    claim = Claim(**{name: str(entry[name]) for name in names})
    datetime.date.fromisoformat(claim.date)
    claim.measures = [
        Measure(m["name"], *(_number(m[k]) for k in ("value", "low", "high", "margin")), m["unit"], m["symbol"]) for m in entry["measures"]
    ]
    claim.cells = [str(cell) for cell in entry["cells"]]
    claim.changes = [{key: str(change[key]) for key in ("date", "what", "why")} for change in entry["changes"]]
    claim.earlier = [{key: str(e[key]) for key in ("when", "profile", "verdict", "because", "rule", "rule_hash")} for e in entry["earlier"]]
    for t in entry["tables"]:
        columns = _distinct(t["columns"])
        rows = tuple((r["label"], dict(zip(columns, map(_number, r["values"])))) for r in t["rows"])
        claim.tables.append(ClaimTable(t["name"], columns, rows, claim))
    return claim


def _distinct(columns):
    """Names of columns; one that comes again is numbered: low, high, low 2, high 2."""
    names = []
    for column in columns:
        again = sum(c == column for c in columns[: len(names)])
        names.append(f"{column} {again + 1}" if again else column)
    return tuple(names)


def _number(value):
    return NAN if value is None else float(value)


# ---- intervals ----------------------------------------------------------------------------------------------------------------------

# 97.5 % points of Student's t, 1 to 30 degrees of freedom (any table of the distribution).
_T975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def interval(values):
    """(mean, low, high): 95 % interval of a mean by Student's t, as core/statistics.h has it; low and high NaN below two values."""
    values = [v for v in values if math.isfinite(v)]
    if not values:
        return NAN, NAN, NAN
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, NAN, NAN
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))
    half = _T975[min(len(values) - 1, 30) - 1] * deviation / math.sqrt(len(values))
    return mean, mean - half, mean + half
