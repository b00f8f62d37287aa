"""The report as one HTML file without any outside resource: pictures are embedded, styles are inline."""
import base64
import html
import os

STYLE = """
:root { --ink:#1f2933; --soft:#52606d; --line:#e4e7eb; --pale:#f7f9fb; --accent:#0b5394; }
* { box-sizing:border-box }
html { scroll-behavior:smooth; scroll-padding-top:1rem }
body { margin:0; color:var(--ink); background:#fff; font:16px/1.6 system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif }
.frame { display:grid; grid-template-columns:9.5rem minmax(0,70rem); gap:2rem; max-width:84rem; margin:0 auto; padding:0 1.5rem }
nav { position:sticky; top:0; align-self:start; max-height:100vh; overflow-y:auto; padding:2.2rem 0 1rem; font-size:.86rem; line-height:1.4 }
nav strong { display:block; margin:0 0 .7rem; font-size:.95rem; letter-spacing:.02em }
nav ol { list-style:none; margin:0; padding:0; border-left:2px solid var(--line) }
nav a { display:block; padding:.35rem .8rem; margin-left:-2px; border-left:2px solid transparent; color:var(--soft); text-decoration:none }
nav a:hover { color:var(--accent); border-left-color:var(--accent) }
main { padding:1.6rem 0 5rem; min-width:0 }
h1 { font-size:1.15rem; line-height:1.3; margin:0; letter-spacing:.01em }
h2 { font-size:1.5rem; line-height:1.3; margin:0 0 .7rem; padding-top:.6rem; letter-spacing:-.01em }
h3 { font-size:1.12rem; margin:1.8rem 0 .5rem }
h4 { font-size:.95rem; margin:1.3rem 0 .4rem }
main > section { margin:2.8rem 0 0; padding-top:.8rem; border-top:2px solid var(--line) }
main > section:first-of-type { margin-top:.9rem }
.lead { color:var(--soft); font-size:.88rem; margin:0; max-width:64rem }
.answer { font-size:1.45rem; line-height:1.4; margin:.6rem 0 .5rem; max-width:58rem }
.scale { color:var(--soft); margin:0 0 1.2rem }
p, .seen { max-width:56rem }
ul.seen { margin:.4rem 0 1rem; padding-left:1.2rem }
ul.seen li { margin:.25rem 0 }
.reading { color:var(--soft); font-size:.92rem }
figure { margin:1rem 0 .6rem }
figure img { display:block; width:100%; max-width:1056px; height:auto }
figcaption { font-size:.85rem; color:var(--soft); margin-top:.4rem }
figcaption a { color:var(--accent); text-decoration:none; margin-right:.9rem }
.gap { background:#fff8e6; border-left:3px solid #e0a800; padding:.5rem .9rem; margin:.6rem 0; font-size:.92rem; max-width:56rem; overflow-wrap:anywhere }
.cards { display:grid; grid-template-columns:repeat(auto-fill,minmax(7.5rem,1fr)); gap:.8rem; margin:1.2rem 0 }
.card { background:var(--pale); border:1px solid var(--line); border-radius:.5rem; padding:.7rem .9rem }
.card b { display:block; font-size:1.35rem; line-height:1.3 }
.card span { font-size:.82rem; color:var(--soft) }
.scroll { overflow-x:auto; max-width:100%; margin:.6rem 0 1.2rem }
table { border-collapse:collapse; font-size:.86rem; line-height:1.4; min-width:24rem }
caption { text-align:left; color:var(--soft); padding:0 0 .4rem; font-size:.86rem }
th, td { text-align:left; padding:.38rem .65rem .38rem 0; border-bottom:1px solid var(--line); vertical-align:top }
th { font-weight:600; border-bottom:2px solid #cbd2d9; vertical-align:bottom }
td.w { white-space:nowrap }
td.n, th.n { text-align:right; font-variant-numeric:tabular-nums } td.n { white-space:nowrap }
tbody tr:hover { background:var(--pale) }
.yes { color:#0b5394; font-weight:600 } .no { color:#9a4b00; font-weight:600 }
.fail { color:#b00020; font-weight:700 } .open { color:var(--soft); font-weight:600 }
.soft { color:var(--soft); font-size:.8rem; font-weight:400 }
td.wide { min-width:14rem; max-width:38rem; overflow-wrap:anywhere }
.figure > details, .claim { border-bottom:1px solid var(--line) }
.figure > details > summary { display:flex; gap:.8rem; align-items:baseline; padding:.5rem 0 }
.figure > details > summary b { flex:0 0 17rem }
.figure > details > summary .soft { flex:1 1 0; min-width:0; white-space:nowrap; overflow:hidden; text-overflow:ellipsis }
.claim > summary { display:grid; grid-template-columns:16rem 3rem minmax(0,1fr); gap:.7rem; align-items:baseline; font-size:.84rem; font-weight:400; padding:.25rem 0 }
.claim > summary > span:first-child, .claim .id { font-size:.74rem; white-space:nowrap; overflow:hidden; text-overflow:ellipsis }
.claim > summary .says { min-width:0; white-space:nowrap; overflow:hidden; text-overflow:ellipsis }
.claim[open] > summary .says { white-space:normal }
.claim > div { padding:0 0 .8rem 1.2rem; font-size:.9rem } .claim > div p { margin:.4rem 0 } .claim > div .no { font-weight:400 }
.figure > details > summary::before, .claim > summary > span:first-child::before { content:"▸ "; color:var(--soft) }
.figure > details[open] > summary::before, .claim[open] > summary > span:first-child::before { content:"▾ " }
summary::-webkit-details-marker { color:var(--soft) }
code { font:.84em ui-monospace,"DejaVu Sans Mono",monospace; overflow-wrap:anywhere }
details summary { cursor:pointer; font-weight:600; padding:.3rem 0 }
.filters { position:sticky; top:0; z-index:2; display:flex; flex-wrap:wrap; gap:.4rem .8rem; align-items:center; background:#fff; border-bottom:1px solid var(--line); padding:.6rem 0; font-size:.86rem; color:var(--soft) }
.filters select, .filters input, .filters button { font:inherit; color:var(--ink); background:#fff; border:1px solid #9aa5b1; border-radius:.3rem; padding:.25rem .45rem; max-width:8.5rem }
.filters button:disabled { color:#9aa5b1; border-color:var(--line) }
.filters output { min-width:6rem; color:var(--ink) }
.count { margin:.4rem 0 -.3rem; font-size:.84rem; color:#9a4b00 }
button.sort { all:unset; cursor:pointer; font-weight:600 }
button.sort::after { content:" ↕"; color:#9aa5b1; font-weight:400 }
th[aria-sort=ascending] button.sort::after { content:" ↑"; color:var(--accent) }
th[aria-sort=descending] button.sort::after { content:" ↓"; color:var(--accent) }
button.sort:focus-visible, .filters :focus-visible, summary:focus-visible { outline:2px solid var(--accent); outline-offset:2px; border-radius:2px }
section, details { scroll-margin-top:3.6rem }
@media (max-width:70rem) { .frame { grid-template-columns:minmax(0,1fr); gap:0 } nav { position:static; max-height:none; padding-bottom:0 } }
@media print { nav, .filters { display:none } .frame { display:block } figure { break-inside:avoid-page } }
"""


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "report.js"), encoding="utf-8") as _stream:
    SCRIPT = _stream.read()

ONE_LINE, LONG = 24, 60  # so few characters of a table's cell stay on one line, so many ask for a wide column
MOST_SEEN = 4  # sentences above a picture, the others are folded below it

# The browser itself holds the page to it: nothing is loaded, whatever a table may contain.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def text(value):
    return html.escape(str(value), quote=True)


def table(caption, header, rows, numeric=(), verdicts=()):
    """An HTML table; columns in `numeric` are right-aligned, in `verdicts` coloured by their first word (yes, no)."""
    side = lambda i, value="": ' class="n"' if i in numeric else ' class="w"' if 0 < len(str(value)) <= ONE_LINE else ' class="wide"' if len(str(value)) > LONG else ""

    def cell(i, value):
        word = str(value).split(" ")[0].rstrip(",:;")
        inner = text(value)
        return f'<span class="{word}">{inner}</span>' if i in verdicts and word in ("yes", "no") else inner

    head = "".join(f"<th{side(i)}>{text(h)}</th>" for i, h in enumerate(header))
    body = "".join(
        "<tr>" + "".join(f"<td{side(i, v)}>{cell(i, v)}</td>" for i, v in enumerate(row)) + "</tr>\n"
        for row in rows
    )
    caption = f"<caption>{text(caption)}</caption>" if caption else ""
    return (
        "<div"
        f' class="scroll"><table>{caption}<thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>\n'
    )


def cards(pairs):
    return (
        '<div class="cards">'
        + "".join(f'<div class="card"><b>{text(v)}</b><span>{text(k)}</span></div>' for k, v in pairs)
        + "</div>\n"
    )


def sentences(items):
    """One sentence is a paragraph, several are a list."""
    if len(items) == 1:
        return f'<p class="seen">{text(items[0])}</p>\n'
    return (
        '<ul class="seen">' + "".join(f"<li>{text(item)}</li>" for item in items) + "</ul>\n" if items else ""
    )


def numeric_columns(rows):
    """Columns whose every entry starts with a digit, a sign or is `n/a`."""
    columns = range(len(rows[0])) if rows else ()
    number = lambda v: str(v) in ("n/a", "none") or str(v)[:1].isdigit() or str(v)[:2] in ("−0", "-0")
    return tuple(i for i in columns if i and all(number(row[i]) for row in rows))


def part(anchor, heading, body):
    """A section inside a heading; nothing where it has no body."""
    title = f"<h3>{text(heading)}</h3>\n" if heading else ""
    return f'<section id="{anchor}">{title}{body}</section>\n' if body else ""


def figure(drawing, title, folded):
    """A drawing: what is seen, the picture, how to read it, gaps, tables. Folded it is a line, its title and first sentence."""
    picture = base64.b64encode(drawing.svg.encode()).decode()
    links = "".join(
        f'<a href="figures/{drawing.name}.{ending}">{ending.upper()}</a>' for ending in ("pdf", "png", "csv")
    )
    alternative = f"{drawing.title}. {' '.join(drawing.seen[:2])}"
    parts = [
        sentences(drawing.seen[:MOST_SEEN]),
        (
            f'<figure><img alt="{text(alternative)}" style="max-width:{drawing.width_px}px"'
            f' src="data:image/svg+xml;base64,{picture}"><figcaption>{text(drawing.title)}.'
            f" {links}</figcaption></figure>\n"
        ),
        f'<p class="reading"><b>How to read it.</b> {text(drawing.how_to_read)}</p>\n',
    ]
    if more := drawing.seen[MOST_SEEN:]:
        noun = "sentence" if len(more) == 1 else "sentences"
        parts.append(f"<details><summary>{len(more)} more {noun}</summary>{sentences(more)}</details>\n")
    parts += [f'<p class="gap">{text(gap[:1].upper() + gap[1:])}</p>\n' for gap in drawing.gaps]
    parts += [
        f"<h4>{text(caption)}</h4>" + table("", header, rows, numeric_columns(rows))
        for caption, header, rows in drawing.tables
        if rows
    ]
    body = "".join(parts)
    if folded:
        line = f'<b>{text(title)}</b><span class="soft">{text(drawing.seen[0] if drawing.seen else "")}</span>'
        body = f"<details><summary>{line}</summary>\n{body}</details>"
    else:
        body = f"<h3>{text(title)}</h3>\n{body}"
    return f'<section id="{drawing.name}" class="figure">{body}</section>\n'


def not_drawn(reasons):
    """Figures without data as one folded line: (name, title, why)."""
    if not reasons:
        return ""
    items = "".join(f'<li id="{name}">{text(title)}: {text(why)}</li>' for name, title, why in reasons)
    return f'<details class="missing"><summary>Figures not drawn: {len(reasons)}</summary><ul class="seen">{items}</ul></details>\n'


def document(title, lead, sections):
    """The whole page. `sections` are (anchor, entry of the contents, heading, body)."""
    contents = "".join(f'<li><a href="#{anchor}">{text(short)}</a></li>' for anchor, short, _, _ in sections)
    body = "".join(
        f'<section id="{anchor}"><h2>{text(heading)}</h2>\n{inner}</section>\n'
        for anchor, _, heading, inner in sections
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport"'
        f' content="width=device-width, initial-scale=1"><meta http-equiv="Content-Security-Policy" content="{POLICY}"><link rel="icon"'
        f' href="data:,"><title>{text(title)}</title><style>{STYLE}</style></head>\n<body><div'
        ' class="frame">\n<nav'
        f' aria-label="Contents"><strong>thinwire</strong><ol>{contents}</ol></nav>\n<main><h1>{text(title)}</h1>\n<p'
        f' class="lead">{text(lead)}</p>\n{body}</main></div>\n<script>\n{SCRIPT}</script></body></html>\n'
    )
