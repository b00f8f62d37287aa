"""Numbers and lists as words, for the sentences of the report."""
import math


def number(value, digits=2):
    """3.1, 0.047, 1200; `n/a` for NaN."""
    if value is None or not math.isfinite(value):
        return "n/a"
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")  # 0.996 has the magnitude of the 1.0 that is printed
    magnitude = math.floor(math.log10(abs(rounded)))
    if -4 <= magnitude < 5:
        text = f"{value:.{max(0, digits - 1 - magnitude)}f}"
        return text if magnitude < digits else f"{value:,.0f}"
    return f"{value:.{digits - 1}e}"


def times(value):
    """A factor: `3.1×`."""
    return f"{number(value)}×" if math.isfinite(value) else "n/a"


def percent(part, whole):
    """Whole numbers, but never 0 % of something nor 100 % of not everything."""
    if not whole:
        return "n/a"
    text = f"{100.0 * part / whole:.0f}"
    if (text == "100" and part < whole) or (text == "0" and part > 0):
        text = f"{min(99.9, max(0.1, 100.0 * part / whole)):.1f}"
    return f"{text} %"


def listing(items, limit=8):
    """`A, B and C`; long lists end in `and 5 more`."""
    items = [str(item) for item in items]
    if len(items) > limit:
        items = items[: limit - 1] + [f"{len(items) - limit + 1} more"]
    if len(items) < 2:
        return "".join(items)
    return ", ".join(items[:-1]) + " and " + items[-1]


def count(n, noun, plural=None):
    return f"{n} {noun if n == 1 else plural or noun + 's'}"


def microseconds(value):
    """A duration with a fitting unit."""
    if value is None or not math.isfinite(value):
        return "n/a"
    return (
        f"{number(value)} µs"
        if value < 1e3
        else f"{number(value / 1e3)} ms" if value < 1e6 else f"{number(value / 1e6)} s"
    )


def size(value):
    """A number of bytes with a fitting binary unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024 or unit == "GiB":
            return f"{number(value, 3)} {unit}"
        value /= 1024
    return ""


def megabytes(value):
    """A number of bytes in the decimal units of links: 3.2 MB, 1.4 GB."""
    if value is None or not math.isfinite(value):
        return "n/a"
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= factor:
            return f"{number(value / factor, 3)} {unit}"
    return f"{number(value, 3)} B"
