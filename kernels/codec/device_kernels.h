// Entry points of the device twins of codecs, as the CUDA module exports them (core/device_abi.h has the rules).
// All pointers are device memory of `ordinal`; work is queued on `stream`, nothing waits for it. Payloads equal
// those of the host codec of the same name byte for byte.
//
// `status` is one 32-bit word on the device into which kernels OR what they find, so that no host
// synchronisation is needed: set it to 0 once, copy it back with the payload.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device_abi.h"

namespace thinwire {

inline constexpr std::uint32_t device_status_non_finite = 1;    ///< input holds NaN or infinity
inline constexpr std::uint32_t device_status_beyond_range = 2;  ///< a finite value or scale exceeds the wire type
inline constexpr std::uint32_t device_status_damaged = 4;       ///< a payload holds what no encoder writes

/// Bytes of device workspace that thinwire_cuda_quantize_encode needs for `columns` channels.
constexpr std::size_t quantize_workspace_bytes(std::int64_t columns) { return static_cast<std::size_t>(columns) * 8; }

}  // namespace thinwire

extern "C" {
/// x f32[count] -> payload 2 * count bytes; `bfloat16` 0: f16, 1: bf16.
using thinwire_cuda_cast_encode_fn = int(const float* x, std::int64_t count, int bfloat16, void* payload, std::uint32_t* status,
                                         int ordinal, void* stream);
/// payload -> out f32[count]; `add` != 0: out += values.
using thinwire_cuda_cast_decode_fn = int(const void* payload, std::int64_t count, int bfloat16, float* out, int add,
                                         std::uint32_t* status, int ordinal, void* stream);
/// x f32[rows, columns] -> payload (f16 scales [columns], then chunk-packed codes); bits 2, 4 or 8; norm = max.
/// `workspace`: quantize_workspace_bytes(columns), 16-byte aligned.
using thinwire_cuda_quantize_encode_fn = int(const float* x, std::int64_t rows, std::int64_t columns, int bits, void* payload,
                                             void* workspace, std::uint32_t* status, int ordinal, void* stream);
using thinwire_cuda_quantize_decode_fn = int(const void* payload, std::int64_t rows, std::int64_t columns, int bits, float* out,
                                             int add, std::uint32_t* status, int ordinal, void* stream);
}
