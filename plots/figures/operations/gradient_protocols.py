"""Data-parallel gradients, every codec and protocol, per matrix and link."""
from plots.lib import exchanges
from plots.lib.figure import Figure, Source


@Figure(
    title="Data-parallel gradients: which reduction protocol suits which codec",
    order=50,
    reads=Source.BENCHES,
    how_to_read=(
        "Rows are codecs, markers the protocol that sums their payloads over ranks: large in the largest"
        " group of replicas, small in smaller groups; dots are single weight matrices, the marker their"
        " median. First panel: bytes of the dense baseline over bytes sent. Others: speed-up over the dense"
        " baseline per link; right of the line at 1 the method pays."
    ),
    columns=exchanges.COLUMNS,
)
def draw(drawing, collected):
    return exchanges.draw(drawing, collected, [("dp_gradient", "data-parallel gradients")])
