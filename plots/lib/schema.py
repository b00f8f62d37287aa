"""Tables and columns of collected.h5 that the figures read, as docs/results-schema.md has them."""
SCHEMA_VERSION = 2

_TEXT = (
    "cell_id program traffic operation method codec form protocol dtype tensor source link compute corpus"
    " baseline status reason"
)
_INTEGER = (
    "ranks tp pp dp layers batch seq hidden seed dense_bytes payload_bytes link_bytes link_bytes_max"
    " received_bytes baseline_link_bytes repetitions threads"
)
_FLOAT = (
    "link_gbps oversubscription ratio encode_us transfer_us decode_us total_us baseline_us encode_cpu_us"
    " decode_cpu_us total_iqr_us baseline_iqr_us algbw_gbps busbw_gbps speedup break_even_gbps relative_l2 cosine"
    " bias zero_fraction encode_gbps decode_gbps memcpy_gbps bound_fraction_encode bound_fraction_decode"
    " blas_fraction_encode blas_fraction_decode"
)
COLUMNS = {
    "cells": {
        **{n: "text" for n in _TEXT.split()},
        **{n: "integer" for n in _INTEGER.split()},
        **{n: "float" for n in _FLOAT.split()},
    },
    "spectra": {
        "tensor": "text",
        "step": "integer",
        "kind": "text",
        "centred": "integer",
        "index": "integer",
        "singular_value": "float",
    },
    "magnitudes": {"kind": "text", "step": "integer", "exponent": "integer", "count": "integer"},
    "training": {
        "step": "integer",
        "loss": "float",
        "tokens_per_second": "float",
        "learning_rate": "float",
        "grad_norm": "float",
    },
    "links": {
        "link": "text",
        "ranks": "integer",
        "bytes": "integer",
        "direction": "text",
        "nominal_gbps": "float",
        "measured_gbps": "float",
        "trusted": "integer",
    },
    "training_curve": {
        "cell_id": "text",
        "plan": "text",
        "step": "integer",
        "loss": "float",
        "validation_loss": "float",
        "link_bytes": "integer",
    },
    "training_time": {
        "cell_id": "text",
        "plan": "text",
        "link": "text",
        "compute": "text",
        "compute_scale": "float",
        "step_ms": "float",
        "step_iqr_ms": "float",
        "steps": "integer",
        "communication_share": "float",
        "compute_ms": "float",
        "encode_ms": "float",
        "transfer_ms": "float",
        "decode_ms": "float",
        "wait_ms": "float",
    },
    "training_traffic": {
        "cell_id": "text",
        "plan": "text",
        "traffic": "text",
        "codec": "text",
        "operations": "integer",
        "dense_bytes": "integer",
        "payload_bytes": "integer",
        "link_bytes": "integer",
        "encode_us": "float",
        "transfer_us": "float",
        "decode_us": "float",
        "relative_error": "float",
    },
    "timeline": {
        "cell_id": "text",
        "plan": "text",
        "link": "text",
        "rank": "integer",
        "category": "text",
        "name": "text",
        "micro": "integer",
        "start_us": "float",
        "end_us": "float",
    },
    "provenance": {"launch": "text", "program": "text"},
}
# Columns that came later (results/row.cpp): where an older file lacks them they are empty.
LATER = {
    "cells": {"tensor_class": "text", "vnmse": "float", "slope_bias": "float", "device": "text", "gflops": "float", "peak_gflops": "float", "bound_fraction": "float", "target_fraction": "float", "target_fraction_encode": "float", "target_fraction_decode": "float"},
    "training_time": {"tokens_per_second": "float", "gflops": "float", "peak_gflops": "float", "mfu": "float", "peak": "text", "device": "text"},
}
