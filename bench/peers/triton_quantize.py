"""Blockwise 8-bit quantisation as Triton kernels: one program per block of elements, the peer of gpu_codecs.py."""
import triton
import triton.language as tl


@triton.jit
def _encode(x, codes, scales, BLOCK: tl.constexpr):
    block = tl.program_id(0).to(tl.int64)
    at = block * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at)
    largest = tl.max(tl.abs(values), axis=0)
    inverse = tl.where(largest > 0, 127.0 / largest, 0.0)
    tl.store(codes + at, tl.floor(values * inverse + 0.5).to(tl.int8))
    tl.store(scales + block, largest / 127.0)


@triton.jit
def _decode(codes, scales, out, BLOCK: tl.constexpr):
    block = tl.program_id(0).to(tl.int64)
    at = block * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(codes + at).to(tl.float32) * tl.load(scales + block))


def encode(torch, x, block):
    """x f32, a whole number of blocks, contiguous -> (int8 codes, f32 scales)."""
    codes = torch.empty(x.numel(), dtype=torch.int8, device=x.device)
    scales = torch.empty(x.numel() // block, dtype=torch.float32, device=x.device)
    _encode[(scales.numel(),)](x, codes, scales, BLOCK=block)
    return codes, scales


def decode(torch, payload, block):
    codes, scales = payload
    out = torch.empty(codes.numel(), dtype=torch.float32, device=codes.device)
    _decode[(scales.numel(),)](codes, scales, out, BLOCK=block)
    return out
