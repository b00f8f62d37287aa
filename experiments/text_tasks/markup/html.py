"""HTML without markup, scripts and listings: a blank line wherever a block begins or ends."""
from html.parser import HTMLParser

SKIPPED = {"script", "style", "pre", "head", "nav"}
INLINE = {"a", "abbr", "acronym", "b", "bdi", "big", "cite", "code", "dfn", "em", "font", "i", "kbd", "q", "s", "samp", "small", "span", "strong", "sub", "sup", "tt", "u", "var", "wbr", "br", "img"}


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.parts, self.inside = [], []

    def handle_starttag(self, tag, attrs):
        if tag in SKIPPED:
            self.inside.append(tag)
        self._edge(tag)

    def handle_endtag(self, tag):
        if tag in self.inside:
            while self.inside.pop() != tag:
                pass
        self._edge(tag)

    def handle_data(self, data):
        if not self.inside:
            self.parts.append(" ".join(data.split("\n")))

    def _edge(self, tag):
        if tag not in INLINE:
            self.parts.append("\n\n")
        elif tag == "br":
            self.parts.append(" ")


def text_of(page):
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return "".join(reader.parts)
