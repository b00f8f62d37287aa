"""On which link a codec pays, from its speed on a GPU: break-even bandwidth beside the nominal rates of real links."""
import numpy as np

from plots.lib import data, device, published, style, words
from plots.lib.figure import Figure, Source

COLUMNS = (
    "device",
    "label",
    "codec_family",
    "peer",
    "dense_bytes",
    "pattern",
    "protocol",
    "kind",
    "ratio",
    "encode_us",
    "decode_us",
    "break_even_gbps",
)


@Figure(
    title="Which link makes this codec pay: break-even bandwidth on a GPU",
    order=170,
    reads=Source.DEVICE,
    how_to_read=(
        "A codec pays on links slower than its break-even bandwidth w* = 8 (dense bytes − bytes sent) / (encode + decode time), so: on"
        " every link whose vertical line stands left of its mark. Filled: a message from rank to rank, all times measured on the device."
        " Hollow, dotted: an all-reduce under its best protocol, computed from the same encode and decode. Three lines per codec are"
        " three sizes, the smallest on top. At the left edge: methods that send no fewer bytes than the dense transfer and never pay."
        " The vertical lines are nominal rates per direction (results/published/links.csv); what a link delivers is less. Latency and"
        " overlap are not counted."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    cells = device.rows(collected, "codec")
    cells = cells.where(np.isfinite(cells["break_even_gbps"]) & (cells["family"] != "none"))
    if not len(cells):
        return drawing.skipped(device.why_skipped(collected))
    drawing.rows = _rows(cells)
    links = published.nominal_links(published.FOLDER)
    labels = device.labels(cells)
    kinds = {r["kind"] for r in drawing.rows}
    handles = style.protocol_handles({("fair", r["protocol"]) for r in drawing.rows}) + style.kind_handles(kinds, measured=True)
    drawing.figure, axes = style.canvas(
        1, 1, height=1.3 + 0.36 * max(3, len(labels)), legend_rows=style.legend_rows(handles, 6)
    )
    style.legend(drawing.figure, handles, 6)
    _panel(axes[0, 0], drawing.rows, labels, links, device.name(cells))
    drawing.seen = _seen(drawing.rows, links)
    drawing.tables = [_table(cells, links), _links_table(links)]
    return drawing


def _row(row):
    reduces = row["operation"] == "all_reduce"
    return {
        "device": row["device"],
        "label": device.label(row),
        "codec_family": row["family"],
        "peer": int(data.is_peer(row)),
        "dense_bytes": int(row["dense_bytes"]),
        "pattern": f"all-reduce of {int(row['dp'])}" if reduces else "message",
        "protocol": row["protocol"],
        "kind": row["kind"],
        "ratio": row["ratio"],
        "encode_us": row["encode_us"],
        "decode_us": row["decode_us"],
        "break_even_gbps": row["break_even_gbps"],
    }


def _rows(cells):
    """Every message, and of the all-reduces the protocol that pays on the fastest link."""
    best = {}
    for row in map(_row, cells.rows()):
        key = (row["device"], row["label"], row["dense_bytes"], row["pattern"])
        if key not in best or row["break_even_gbps"] > best[key]["break_even_gbps"]:
            best[key] = row
    return list(best.values())


def _panel(axes, rows, labels, links, name):
    rates = [r["break_even_gbps"] for r in rows if r["break_even_gbps"] > 0]
    left, right = style.log_limits(rates + [rate for _, rate, _, _ in links])
    gutter = left / (right / left) ** 0.05
    sizes = sorted({r["dense_bytes"] for r in rows})
    places = [label for label, _, _ in labels]
    spots = []
    for r in rows:
        shift = 0.5 * (sizes.index(r["dense_bytes"]) / max(1, len(sizes) - 1) - 0.5) if len(sizes) > 1 else 0
        x = r["break_even_gbps"] if r["break_even_gbps"] > 0 else gutter
        spots.append((x, places.index(r["label"]) + shift, style.point(r["codec_family"], "fair", r["protocol"], r["kind"], size=34)))
    style.scatter(axes, spots)
    for _, rate, _, _ in links:
        axes.axvline(rate, color="#7b8794", linewidth=1.0, zorder=1.5)
    axes.set(xscale="log", xlabel=f"break-even bandwidth (Gbit/s per direction), {name}")
    axes.set_xlim(gutter / (right / left) ** 0.04, right)
    style.number_ticks(axes.xaxis, left, right)
    axes.set_ylim(len(places) - 0.4, -0.6)
    axes.set_yticks(range(len(places)), places)
    axes.tick_params(axis="y", length=0)
    above = axes.secondary_xaxis("top")
    above.set_xscale("log")
    above.set_xticks([rate for _, rate, _, _ in links], [link for link, _, _, _ in links], rotation=38, ha="left", fontsize=7.5)
    above.minorticks_off()


def _pays_on(rate, links):
    slower = [link for link, nominal, _, _ in links if nominal < rate]
    return words.listing(reversed(slower)) if slower else "none of them"


def _seen(rows, links):
    messages = [r for r in rows if r["pattern"] == "message" and not r["peer"]]
    if not messages:
        return ["No codec of ours was timed as a message."]
    largest = max(r["dense_bytes"] for r in messages)
    here = [r for r in messages if r["dense_bytes"] == largest]
    seen = []
    for link, rate, _, _ in links:
        pays = [r for r in here if r["break_even_gbps"] > rate]
        seen.append(
            f"On {link} ({words.number(rate, 3)} Gbit/s nominal) {len(pays)} of {words.count(len(here), 'codec')} pay for messages of"
            f" {words.size(largest)}{': ' + words.listing([r['label'] for r in pays]) if pays else ''}."
        )
    for peer in [r for r in rows if r["peer"] and r["dense_bytes"] == largest]:
        ours = [r for r in here if r["codec_family"] == peer["codec_family"]]
        if ours:
            best = max(ours, key=lambda r: r["break_even_gbps"])
            seen.append(
                f"{peer['label']} breaks even at {words.number(peer['break_even_gbps'], 3)} Gbit/s, our {best['label']} at"
                f" {words.number(best['break_even_gbps'], 3)}."
            )
    return seen


def _table(cells, links):
    rows = []
    for r in sorted(map(_row, cells.rows()), key=lambda r: (r["peer"], data.method_order(r["label"], r["codec_family"]), r["dense_bytes"], r["pattern"] != "message", r["protocol"])):
        rows.append(
            [
                r["label"],
                "PyTorch" if r["peer"] else "thinwire",
                words.size(r["dense_bytes"]),
                r["pattern"] + ("" if r["pattern"] == "message" else f", {r['protocol'].replace('_', '-')}"),
                words.times(r["ratio"]),
                words.microseconds(r["encode_us"]),
                words.microseconds(r["decode_us"]),
                f"{words.number(r['break_even_gbps'], 3)} Gbit/s",
                _pays_on(r["break_even_gbps"], links),
            ]
        )
    header = ["codec", "by", "dense size", "pattern", "fewer bytes", "encode", "decode", "break-even", "pays on (nominal rates)"]
    return ("Break-even bandwidth of every codec and pattern; all-reduces are computed from the measured encode and decode", header, rows)


def _links_table(links):
    rows = [[link, f"{words.number(rate, 4)} Gbit/s", provenance, source] for link, rate, provenance, source in links]
    return ("Nominal rates of the reference lines, per direction", ["link", "rate", "provenance", "source"], rows)
