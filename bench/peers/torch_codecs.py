"""Codecs as a user of PyTorch would write them, and their measurement: what the scripts for a GPU and for a CPU share."""
import rows

BLOCK = 4096  # elements that share a scale
FLOAT = 4  # bytes


class Method:
    """A codec as a user would write it: encode(x) -> payload tensors, decode(payload) -> tensor like x."""

    def __init__(self, name, encode, decode, traffic=1, exact=1.0):
        self.name, self.encode, self.decode = name, encode, decode
        self.traffic = traffic  # passes over the tensor that encoding cannot avoid
        self.exact = exact  # the largest relative error of what is decoded; 1: less than decoding zeros would have


def kept(elements, fraction):
    """As our Top-K counts: to the nearest, and at least one."""
    return max(1, int(elements * fraction + 0.5))


def expression(name, value, default):
    """The codec that a method is the peer of, as bench_device writes it: what is the default is left out."""
    return name if value == default else f"{name}:{'rank' if name == 'powersgd' else 'fraction'}={value:g}"


def cast(torch):
    return Method("torch cast", lambda x: (x.to(torch.float16),), lambda p, x: p[0].to(torch.float32), exact=2**-10)


def top_k(torch, fraction):
    def encode(x):
        flat = x.view(-1)
        index = torch.topk(flat.abs(), kept(flat.numel(), fraction), sorted=False).indices
        return flat[index], index

    def decode(payload, x):
        out = torch.zeros_like(x)
        out.view(-1)[payload[1]] = payload[0]
        return out

    return Method("torch.topk", encode, decode)


def power_sgd(torch, rank):
    """One message as torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook computes it with warm start, its all-reduces left out:
    orthogonalise Q, P = M Q, orthogonalise P, Q = M^T P; decode: P Q^T. Its own orthogonalisation where it can be imported."""
    try:
        from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import _orthogonalize

        def orthogonalise(matrix):
            batch = matrix.unsqueeze(0)
            _orthogonalize(batch)
            return batch.squeeze(0)

    except ImportError:

        def orthogonalise(matrix):
            return torch.linalg.qr(matrix).Q

    state = {}

    def encode(x):
        if "q" not in state:
            state["q"] = torch.randn(x.shape[1], min(rank, *x.shape), device=x.device)
        q = orthogonalise(state["q"])
        p = orthogonalise(x @ q)
        state["q"] = x.t() @ p
        return p, state["q"].clone()

    return Method("torch PowerSGD hook", encode, lambda payload, x: payload[0] @ payload[1].t(), traffic=2)


def blockwise(torch, name, compile=False):
    """8-bit codes and a scale per BLOCK elements, as bitsandbytes' blockwise quantisation, with equal steps instead of its table of codes."""

    def encode_blocks(blocks):
        largest = blocks.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)
        return (blocks * (127.0 / largest)).round().to(torch.int8), largest * (1.0 / 127.0)

    def decode_blocks(codes, scale):
        return codes.to(torch.float32) * scale

    if compile:
        encode_blocks, decode_blocks = torch.compile(encode_blocks), torch.compile(decode_blocks)
    return Method(
        name,
        lambda x: encode_blocks(x.view(-1, BLOCK)),
        lambda payload, x: decode_blocks(*payload).view_as(x),
        exact=0.02,
    )


def payload_bytes(payload):
    return sum(t.numel() * t.element_size() for t in payload)


def measure(torch, method, x, clock, seconds, wire=2):
    """Columns of one row, against a dense message of `wire` bytes an element. AssertionError when what is decoded is not what the method promises."""
    payload = method.encode(x)
    decoded = method.decode(payload, x)
    error = float((decoded - x).norm() / x.norm())
    if not error <= method.exact:
        raise AssertionError(f"{method.name} decodes with a relative error of {error:.3g}, more than {method.exact:g}")
    out = torch.empty_like(x)
    # Encoding again may change state (a warm start): what is decoded stays the first payload.
    times = clock.take_turns(
        {"copy": lambda: out.copy_(x), "encode": lambda: method.encode(x), "decode": lambda: method.decode(payload, x)}, seconds
    )
    encode, decode = rows.median(times["encode"]), rows.median(times["decode"])
    tensor, sent, dense = x.numel() * FLOAT, payload_bytes(payload), x.numel() * wire
    copy_gbps = tensor / (rows.median(times["copy"]) * 1e3)
    return {
        "encode_us": encode,
        "decode_us": decode,
        "total_us": rows.median([e + d for e, d in zip(times["encode"], times["decode"])]),
        "total_iqr_us": rows.interquartile_range([e + d for e, d in zip(times["encode"], times["decode"])]),
        "repetitions": len(times["encode"]),
        "memcpy_gbps": copy_gbps,
        "encode_gbps": tensor / (encode * 1e3),
        "decode_gbps": tensor / (decode * 1e3),
        "bound_fraction_encode": rows.bound_fraction(method.traffic * tensor + sent, copy_gbps, encode),
        "bound_fraction_decode": rows.bound_fraction(tensor + sent, copy_gbps, decode),
        "dense_bytes": dense,
        "payload_bytes": sent,
        "ratio": dense / sent,
        "break_even_gbps": rows.break_even_gbps(dense, sent, encode + decode),
        "relative_l2": error,
        "vnmse": error**2,
    }
