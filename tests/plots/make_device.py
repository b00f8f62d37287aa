"""Made-up rows of bench_device and of the PyTorch peers on a GPU, in the shape that `collect` writes."""
import make_collected as made

GPU = "NVIDIA H200"


def device_row(**values):
    return made.row(**{"program": "bench_device", "compute": "device", "device": GPU, **values})


def codec_rows(codec, ratio, encode, decode, program="bench_device", method="", device=GPU, sizes=(32 << 20, 128 << 20, 512 << 20), **more):
    """A message and two modelled all-reduces per size; microseconds are those of 32 MiB and grow with the size."""
    for dense in sizes:
        factor, sent = dense / (32 << 20), dense / ratio
        base = dict(program=program, traffic="codec", method=method or codec.split(":")[0], codec=codec, dense_bytes=dense, payload_bytes=int(sent), device=device)
        e, d = encode * factor, decode * factor
        rate = lambda link, saved: max(0.0, 8e-3 * saved / link)
        yield device_row(
            **base, operation="encode_decode", protocol="point_to_point", encode_us=e, decode_us=d, total_us=e + d, ratio=ratio, repetitions=20,
            bound_fraction_encode=0.9, bound_fraction_decode=0.8, break_even_gbps=rate(e + d, dense - sent), **more,
        )  # fmt: skip
        if program != "bench_device" or codec == "none":
            continue
        for protocol, codec_us, link in (("gather", e + 8 * d, 7 * sent), ("two_shot", 1.125 * e + 2 * d, 1.75 * sent)):
            yield device_row(
                **{**base, "compute": "modelled"}, operation="all_reduce", protocol=protocol, dp=8, encode_us=e, decode_us=codec_us - e,
                ratio=1.75 * dense / link, link_bytes=int(link), break_even_gbps=rate(codec_us, 1.75 * dense - link),
            )  # fmt: skip


def gpu_cells(device=GPU):
    yield from codec_rows("none", 0.5, 30, 30, device=device, target_fraction=0.85)
    yield from codec_rows("cast", 1.0, 25, 25, device=device, target_fraction=0.85)
    yield from codec_rows("quantize", 2.0, 26, 27, device=device, target_fraction=0.85)
    yield from codec_rows("topk", 33.0, 50, 20, device=device, target_fraction=0.5)
    yield from codec_rows("powersgd:rank=16", 120.0, 90, 30, device=device, blas_fraction_encode=0.6, blas_fraction_decode=0.7)
    yield from codec_rows("topk", 17.0, 900, 40, program="pytorch 2.9", method="torch.topk", device=device)
    yield from codec_rows("quantize", 2.0, 60, 30, program="pytorch 2.9", method="torch.compile blockwise 8-bit", device=device)
    for dtype in ("f32", "bf16"):
        for operation, fraction in (("gemm_peak", 1.0), ("gemm_qkv", 0.8), ("attention_forward", 0.5)):
            yield device_row(traffic="kernel", operation=operation, dtype=dtype, gflops=fraction * 4e5, peak_gflops=4e5, bound_fraction=fraction, total_us=100.0, device=device)
        yield device_row(traffic="kernel", operation="layernorm_forward", dtype=dtype, bound_fraction=0.85, total_us=10.0, device=device)
    yield device_row(
        program="pytorch 2.9", traffic="training", operation="train_step", method="torch compile", batch=8, seq=1024, total_us=2e4, total_iqr_us=100.0,
        gflops=3e5, peak_gflops=6e5, bound_fraction=0.5, device=device,
    )  # fmt: skip
