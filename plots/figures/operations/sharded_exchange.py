"""What sharded data parallelism exchanges: gradients scattered to the owners of their rows, weights gathered from there."""
from plots.lib import exchanges
from plots.lib.figure import Figure, Source


@Figure(
    title="Sharded data parallelism: which codec pays on its two exchanges",
    order=51,
    reads=Source.BENCHES,
    how_to_read=(
        "Above, gradients: each rank gets the sum of its rows. Below, weights: each rank gets all rows from"
        " their owners. Rows are codecs, markers the protocol. First panel: bytes of the dense baseline over"
        " bytes sent. Others: speed-up over the dense baseline per link; right of the line at 1 the codec pays."
    ),
    columns=exchanges.COLUMNS,
)
def draw(drawing, collected):
    return exchanges.draw(drawing, collected, [("grad_reduce_scatter", "gradients"), ("param_all_gather", "weights")])
