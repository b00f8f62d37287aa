"""What crosses a link (collectives/channel/traffic.h): the one table of its classes that figures and tables share. A new class is a line here."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Traffic:
    name: str
    words: str
    marker: str
    activation: bool = False


# In the order of every table and legend.
CLASSES = (
    Traffic("tp_forward", "tensor-parallel forward sum", "o", activation=True),
    Traffic("pp_forward", "stage-boundary activation", "^", activation=True),
    Traffic("tp_backward", "tensor-parallel backward sum", "8", activation=True),
    Traffic("pp_backward", "stage-boundary gradient", "v", activation=True),
    Traffic("dp_gradient", "data-parallel gradient", "s"),
    Traffic("grad_reduce_scatter", "sharded gradients, scatter", "p"),
    Traffic("param_all_gather", "sharded weights, gather", "h"),
    Traffic("outer_gradient", "replicas' exchange every so many steps", "P"),
    Traffic("optimizer", "exchange inside the update", "X"),
    Traffic("tp_weight", "grid weights", "<"),
    Traffic("tp_weight_gradient", "grid weight gradients", ">"),
    Traffic("embedding", "embedding gradient", "D"),
)
NAMES = tuple(c.name for c in CLASSES)
ACTIVATIONS = tuple(c.name for c in CLASSES if c.activation)
# What rows of no class of their own are called: they are no traffic that a method compresses.
OTHERS = {"codec": "codec alone", "control": "dense collectives", "kernel": "kernels", "training": "training"}
WORDS = {**{c.name: c.words for c in CLASSES}, **OTHERS}
MARKERS = {c.name: c.marker for c in CLASSES}


def words_of(name):
    return WORDS.get(name, name)
