"""Manual pages (man(7)): running text without requests, fonts and listings."""
import re

BREAKS = {".PP", ".P", ".LP", ".TP", ".IP", ".SH", ".SS", ".HP", ".RS", ".RE", ".TQ", ".br", ".sp"}
HEADINGS = {".SH", ".SS", ".TH"}
FONTS = {".B", ".I", ".BR", ".BI", ".IB", ".IR", ".RB", ".RI", ".SM", ".SB"}
LISTINGS = {".nf": ".fi", ".EX": ".EE", ".TS": ".TE", ".de": ".."}
NAMED = {"aq": "'", "dq": '"', "lq": '"', "rq": '"', "oq": "'", "cq": "'", "em": " - ", "en": "-", "bu": "", "ha": "^", "ti": "~", "rs": "\\", "co": "(c)"}
ESCAPE = re.compile(r"\\(?:f(?:\[[^\]]*\]|\(..|.)|s[+-]?\d|\*?\((..)|\[([^\]]*)\]|([-&|^%:e~ /,'`c0.]))")
SINGLE = {"-": "-", "e": "\\", "~": " ", " ": " ", "0": " ", "'": "'", "`": "`", ".": "."}
ARGUMENT = re.compile(r'"((?:[^"]|"")*)"|(\S+)')


def text_of(page):
    lines, until = [], None
    for line in page.split("\n"):
        request = line.split(" ")[0].rstrip()
        if until:
            until = None if request == until else until
        elif request in LISTINGS:
            until = LISTINGS[request]
            lines.append("")
        elif request in FONTS:
            between = "" if len(request) == 3 and request not in (".SM", ".SB") else " "
            lines.append(between.join(a or b for a, b in ARGUMENT.findall(line[len(request) :])))
        elif request in BREAKS:
            lines.append("")
        elif line[:1] not in (".", "'"):
            lines.append(line)
    return re.sub(ESCAPE, _character, "\n".join(lines))


def _character(match):
    return NAMED.get(match[1] or match[2], "") if match[1] or match[2] else SINGLE.get(match[3], "")
